"""Blocks and rejection on tiny models: what is taken, where it ends, and what is refused."""

from __future__ import annotations

import pytest
from guided_models import load, prompt, rows_of

from palate.engines import sample
from palate.errors import ModelError
from palate.guidance import Blocks, Rejection, Writing, write_segments
from palate.seeding import unit
from tiny import EOS, KINDS

ROOM = 7


@pytest.fixture(params=KINDS)
def policy(request, tiny):
    return load(tiny.of(KINDS[request.param]))


class Ratings:
    """Rewards by text, and all that was rated."""

    def __init__(self, reward=lambda text: unit("reward", text)):
        self.reward, self.calls = reward, []

    def __call__(self, texts):
        self.calls.append(list(texts))
        return [self.reward(text) for _, text in texts]

    def of_row(self, row):
        return [text for call in self.calls for k, text in call if k == row]


def rows(policy, n=3):
    ids = prompt(policy)
    return rows_of([ids, ids[:33], ids, ids][:n], [()] * n, numbers=[0, 0, 1, 2][:n])


def written(law, policy, given, rate, **how):
    return write_segments(law, policy, given, Writing(**{"max_tokens": ROOM, **how}), rate)


def test_one_proposal_of_the_whole_response_is_a_plain_sample_by_law(policy):
    (made,) = written(Blocks(1, ROOM), policy, rows(policy, 1), Ratings(), temperature=0.0)
    (plain,) = sample(policy, prompt(policy), 1, ROOM, temperature=0)
    assert made.ids == plain.ids
    assert made.text == plain.text
    assert made.log_probability == pytest.approx(plain.log_probability, abs=1e-3)


@pytest.mark.parametrize("proposals", [1, 3, 6])
def test_the_best_of_k_is_taken_at_every_segment(policy, proposals):
    ratings, given = Ratings(), rows(policy)
    made = written(Blocks(proposals, 3), policy, given, ratings)
    for row, response in enumerate(made):
        assert response.cut_off
        assert len(response.ids) == ROOM
        rated = ratings.of_row(row)
        assert len(rated) == 3 * proposals, "3, 3 and 1 tokens"
        before = ""
        for first in range(0, len(rated), proposals):
            some = rated[first : first + proposals]
            assert all(text.startswith(before.rstrip("\ufffd")) for text in some)
            before = max(some, key=lambda text: unit("reward", text))
        assert response.text == before
        assert response.tokens["policy"] == proposals * ROOM
        assert response.tokens["guide"] == proposals * (3 + 6 + 7)
    whole = [(it.ids, given[k].prompt) for k, it in enumerate(made)]
    for (ids, before), response in zip(whole, made, strict=True):
        ((_, (logp,)),) = policy.log_probabilities([[((*before, *ids), len(before))]])
        assert response.log_probability == pytest.approx(float(logp.sum()), abs=1e-3)


def test_many_prompts_together_are_each_alone_and_a_wave_changes_nothing(policy, monkeypatch):
    from palate.guidance import segments

    for law in (Blocks(5, 2), Rejection([0.9] * 3, 0.05, 2, 3)):
        given = rows(policy)
        together = [it.ids for it in written(law, policy, given, Ratings())]
        alone = [written(one_row(law), policy, [row], Ratings())[0].ids for row in given]
        assert together == alone
        with monkeypatch.context() as patch:
            patch.setattr(segments, "WAVE", 1)
            assert [it.ids for it in written(law, policy, given, Ratings())] == together
        assert [it.ids for it in written(law, policy, given, Ratings(), seed=1)] != together


def one_row(law):
    return law if isinstance(law, Blocks) else law._replace(thresholds=law.thresholds[:1])


def test_what_is_above_the_threshold_is_accepted_at_once(policy):
    ratings, given = Ratings(), rows(policy)
    made = written(Rejection([-1.0] * 3, 0.1, 3, 5), policy, given, ratings)
    best_of_one = written(Blocks(1, 3), policy, given, Ratings())
    assert [it.ids for it in made] == [it.ids for it in best_of_one]


def test_a_threshold_no_text_reaches_takes_the_best_of_all(policy):
    given = rows(policy)
    made = written(Rejection([1e9] * 3, 1e-3, 3, 5), policy, given, Ratings())
    assert [it.ids for it in made] == [
        it.ids for it in written(Blocks(6, 3), policy, given, Ratings())
    ]


def test_each_row_has_a_threshold_of_its_own(policy):
    given = rows(policy)
    made = written(Rejection([-1.0, 1e9, -1.0], 1e-3, 3, 5), policy, given, Ratings())
    one, six = (written(Blocks(k, 3), policy, given, Ratings()) for k in (1, 6))
    assert [it.ids for it in made] == [one[0].ids, six[1].ids, one[2].ids]


def test_a_response_that_ends_in_a_block_stays_as_it_is(tiny):
    policy = load(tiny.model())
    given = rows(policy, 4)
    free = written(Blocks(1, 3), policy, given, Ratings())
    ends = [free[0].ids[1], free[1].ids[4], EOS]
    policy.model.generation_config.eos_token_id = ends
    ratings = Ratings()
    made = written(Blocks(1, 3), policy, given, ratings)
    for row, (before, after) in enumerate(zip(free, made, strict=True)):
        stop = next((k for k, token in enumerate(before.ids) if token in ends), ROOM)
        assert after.ids == before.ids[:stop]
        assert after.cut_off == (stop == ROOM)
        assert len(ratings.of_row(row)) == min(3, stop // 3 + 1)
    assert {it.cut_off for it in made} == {True, False}


def test_a_text_that_was_not_begun_has_no_reward_and_never_wins(tiny):
    policy = load(tiny.model())
    given = rows(policy, 1)
    (free,) = written(Blocks(1, 3), policy, given, Ratings(), temperature=0.0)
    policy.model.generation_config.eos_token_id = [free.ids[0]]

    def reward(text):
        return unit("reward", text) if text.strip() else None

    (made,) = written(Blocks(1, 3), policy, given, Ratings(reward), temperature=0.0)
    assert (made.ids, made.text, made.cut_off) == ([], "", False)
    (made,) = written(Blocks(30, 3), policy, given, Ratings(reward), temperature=2.0)
    assert made.text.strip()


def test_a_missing_reward_of_a_text_that_was_begun_is_an_error(tiny):
    policy = load(tiny.model())
    with pytest.raises(ModelError, match="row 0"):
        written(Blocks(2, 3), policy, rows(policy), Ratings(lambda text: None))


def test_no_id_that_is_no_token_is_proposed(tiny):
    policy = load(tiny.model(vocab_size=1400))
    there = set(policy.tokenizer.get_vocab().values())
    made = written(Blocks(2, 3), policy, rows(policy, 4) * 1, Ratings(), temperature=2.0)
    assert {token for it in made for token in it.ids} <= there
