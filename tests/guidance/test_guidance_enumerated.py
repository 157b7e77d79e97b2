"""The laws hold; samplers that are wrong in one thing fail the same checks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from decoding_laws import laws
from decoding_laws.checks import LEAST_P, LawCheck, chi_square
from decoding_laws.limits import fusion_score, limit_checks, tilt_checks
from decoding_laws.segment_checks import Rewards, drawn_segments, rejection, segment_checks
from decoding_laws.token_checks import (
    args_checks,
    candidate_checks,
    drawn_fusion,
    fusion_checks,
    preset,
)
from decoding_laws.words import WORDS
from decoding_laws.world import LENGTH, WordWorld
from palate.engines import ValidIds
from palate.guidance import (
    Blocks,
    CandidateRows,
    Candidates,
    FusedRows,
    Fusion,
    TokenFilter,
    segments,
    stepwise,
)


@pytest.fixture(scope="module")
def world() -> WordWorld:
    return WordWorld(0)


@pytest.fixture(scope="module")
def two_ends() -> WordWorld:
    return WordWorld(0, WORDS[-2:])


def failed(made: Iterable[LawCheck]) -> set[str]:
    return {check.what for check in made if not check.ok}


def test_fusions_hold(world: WordWorld, two_ends: WordWorld) -> None:
    made = list(fusion_checks(world, two_ends))
    assert not failed(made)
    assert {*laws.PRESET_LAWS} < {check.what for check in made}


def test_candidates_hold(world: WordWorld) -> None:
    assert not failed(candidate_checks(world))


def test_segments_hold(world: WordWorld, two_ends: WordWorld) -> None:
    assert not failed(segment_checks(world, two_ends))


def test_limits_hold(world: WordWorld) -> None:
    assert not failed(limit_checks(world))


def test_every_preset_is_checked_and_the_world_is_all_of_it(world: WordWorld) -> None:
    from palate.guidance import PRESETS

    assert set(PRESETS) == set(laws.PRESET_LAWS)
    assert len(world.tree.responses) == 2801
    assert world.base.sum() == pytest.approx(1)


def logits_of(change: Callable[..., Any]) -> Callable[..., Any]:
    """Return a fusion whose logits are changed: `change` of (law, policy, guide)."""
    right = Fusion.logits

    def wrong(self: Fusion, policy: Any, guide: Any, also: Any = None) -> Any:
        made = change(self, policy, guide)
        return right(self, policy, guide, also) if made is None else made

    return wrong


def temperature_before(law: Fusion, policy: Any, guide: Any) -> Any:
    cooled = torch.log_softmax(policy / 0.7, dim=-1)
    return law.policy * cooled + law.guide * guide


def temperature_twice(law: Fusion, policy: Any, guide: Any) -> Any:
    return (law.policy * policy + law.guide * guide) / 0.7


def divided_by_the_weights(law: Fusion, policy: Any, guide: Any) -> Any:
    return (law.policy * policy + law.guide * guide) / (law.policy + law.guide)


def guide_alone(law: Fusion, policy: Any, guide: Any) -> Any:
    return law.guide * guide + 0 * policy


@pytest.mark.parametrize(
    "wrong", [temperature_before, temperature_twice, divided_by_the_weights, guide_alone]
)
def test_a_wrong_fusion_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., Any]
) -> None:
    monkeypatch.setattr(Fusion, "logits", logits_of(wrong))
    assert not preset(world, "genarm", temperature=0.7).ok


def test_a_keep_set_of_the_wrong_member_or_of_one_word_less_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = TokenFilter.mask
    monkeypatch.setattr(
        TokenFilter, "mask", lambda self, logp: right(self._replace(number=2), logp)
    )
    assert not preset(world, "farma").ok
    monkeypatch.setattr(
        TokenFilter, "mask",
        lambda self, logp: right(self, torch.log_softmax(logp / 1.5, dim=-1)),
    )  # fmt: skip
    assert not preset(world, "linear-alignment", temperature=1.5).ok


def test_a_preset_with_another_number_in_it_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    from palate.guidance import PRESETS

    more = PRESETS["pad"]._replace(keep=TokenFilter("top-k", 20))
    monkeypatch.setitem(PRESETS, "pad", more)
    assert not preset(world, "pad").ok
    swapped = PRESETS["mod"]
    wrong = swapped._replace(policy=lambda w: w + 0.1, guide=lambda w: 0.9 - w)
    monkeypatch.setitem(PRESETS, "mod", wrong)
    assert not preset(world, "mod").ok
    monkeypatch.setitem(PRESETS, "amulet", PRESETS["amulet"]._replace(weight=4.6))
    assert not preset(world, "amulet").ok


def test_extra_ids_are_caught(world: WordWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = world.policy.valid_ids
    monkeypatch.setattr(world.policy, "valid_ids", ValidIds(plain.size + 2, None))
    assert not preset(world, "genarm").ok
    assert any(not check.ok for check in drawn_fusion(world, ""))
    monkeypatch.setattr(world.policy, "valid_ids", plain._replace(blocked=None))
    assert not best_of_three(world).ok


def best_of_three(world: WordWorld) -> LawCheck:
    def choose(law: Any, rewards: Any) -> Any:
        return laws.best_of(law, rewards, 3)

    return drawn_segments("", world, Blocks(3, 2), choose, rewards=Rewards(0))


def test_an_end_token_that_ends_nothing_is_caught(
    two_ends: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    *_, second = WORDS
    monkeypatch.setattr(two_ends.policy.model.generation_config, "eos_token_id", [second])
    assert any(not check.ok for check in drawn_fusion(two_ends, ""))
    assert not best_of_three(two_ends).ok


def test_a_tilt_where_a_fusion_is_meant_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, reward = world.guide("q")
    law = laws.tilted(world.base, world.tree.sums(reward))
    drawn = [world.tree.responses[k] for k in torch.multinomial(
        torch.from_numpy(law), 4000, replacement=True, generator=torch.manual_seed(0)
    )]  # fmt: skip
    monkeypatch.setattr(world, "write", lambda *given: (drawn, [0.0, 1.0]))
    assert not next(drawn_fusion(world, "")).ok


def test_wrong_candidates_are_caught(world: WordWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    right = Candidates.logits

    def unweighted(self: Candidates, policy: Any, tokens: Any, rewards: Any) -> Any:
        return right(self._replace(weight=1.0), policy, tokens, rewards)

    def without_policy(self: Candidates, policy: Any, tokens: Any, rewards: Any) -> Any:
        return right(self, policy.masked_fill(policy.isfinite(), 0), tokens, rewards)

    def before_it_is_written(self: CandidateRows, tokens: Any) -> Any:
        self._tokens = tokens.tolist()
        self.prefixes.rows.look(self._tokens)
        return torch.zeros(tokens.shape)

    for name, of, wrong in (
        ("logits", Candidates, unweighted), ("logits", Candidates, without_policy),
        ("rewards", CandidateRows, before_it_is_written),
    ):  # fmt: skip
        with monkeypatch.context() as patch:
            patch.setattr(of, name, wrong)
            assert not next(args_checks(world)).ok, wrong


def test_an_open_prefix_read_at_the_end_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never_closed(self: CandidateRows, tokens: Any) -> Any:
        self._tokens = tokens.tolist()
        of = self.prefixes
        return of.guide.rewards(of.rows.look(self._tokens), of.slates)

    monkeypatch.setattr(CandidateRows, "rewards", never_closed)
    assert not next(args_checks(world)).ok


def test_going_on_with_another_candidate_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = CandidateRows.go_on

    def another(self: CandidateRows, rows: Any, chosen: Any) -> None:
        take = self.prefixes.take
        self.prefixes.take = lambda which: take([0 for _ in which])  # type: ignore[method-assign]
        right(self, rows, chosen)

    monkeypatch.setattr(CandidateRows, "go_on", another)
    assert not next(args_checks(world)).ok


def test_a_guide_that_reads_the_policys_prompt_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = FusedRows.__init__

    def wrong(self: FusedRows, law: Any, policy: Any, guide: Any, rows: Any, room: int) -> None:
        alike = [
            row._replace(reading=row.reading._replace(prompts=(row.prompt,) * len(guide.models)))
            for row in rows
        ]
        right(self, law, policy, guide, alike, room)

    monkeypatch.setattr(FusedRows, "__init__", wrong)
    assert not preset(world, "genarm").ok
    assert not preset(world, "drift").ok


def worst(law: Any, writer: Any) -> Any:
    made = writer.propose(range(len(writer.going)), range(law.proposals))
    return [min(proposals, key=lambda it: it.reward) for proposals in made]


def first(law: Any, writer: Any) -> Any:
    made = writer.propose(range(len(writer.going)), range(2))
    return [max(proposals, key=lambda it: it.reward) for proposals in made]


@pytest.mark.parametrize("wrong", [worst, first])
def test_another_choice_of_blocks_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch, wrong: Callable[..., Any]
) -> None:
    monkeypatch.setattr(segments, "_best_of", wrong)
    assert not best_of_three(world).ok


def test_wrong_rejections_are_caught(world: WordWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    right = segments._accepted

    def check(rejections: int) -> LawCheck:
        def choose(law: Any, rewards: Any) -> Any:
            return laws.rejected(law, rewards, 1.2, 0.5, rejections)

        law = rejection(1.2, 0.5, rejections)
        return drawn_segments("", world, law, choose, rewards=Rewards(0))

    def last_of_the_rejected(law: Any, writer: Any) -> Any:
        propose, final = writer.propose, law.rejections

        def blind(waiting: Any, numbers: Any) -> Any:
            made = propose(waiting, numbers)
            for of_row in made:
                for number, proposal in zip(numbers, of_row, strict=True):
                    if number == final:
                        proposal.reward = math.inf
            return made

        writer.propose = blind
        return right(law, writer)

    def warmer(law: Any, writer: Any) -> Any:
        return right(law._replace(scale=2 * law.scale), writer)

    assert check(2).ok
    assert check(20).ok
    monkeypatch.setattr(segments, "_accepted", last_of_the_rejected)
    assert not check(2).ok
    monkeypatch.setattr(segments, "_accepted", warmer)
    assert not check(20).ok


def test_weight_0_times_minus_infinity_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        Fusion, "logits",
        lambda self, policy, guide, also=None: self.policy * policy + self.guide * guide,
    )  # fmt: skip
    assert "fusion, −∞ in the guide: base" in failed(limit_checks(world))


def test_a_word_outside_the_keep_set_that_is_left_out_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Fusion.logits
    monkeypatch.setattr(
        Fusion, "logits", lambda self, policy, guide, also=None: right(self, policy, guide)
    )
    assert fusion_score(world, TokenFilter("top-k", 3), world.p)(1.0).min() == -math.inf
    with np.errstate(invalid="ignore"):
        assert "fusion, top 3: base" in failed(limit_checks(world))


def test_a_tilt_without_its_weight_is_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Candidates.logits
    monkeypatch.setattr(
        Candidates, "logits",
        lambda self, policy, tokens, rewards: right(self, policy, tokens, 2 * rewards),
    )  # fmt: skip
    assert len(failed(tilt_checks(world))) >= 3


def test_divergences_of_another_law_are_caught(
    world: WordWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = stepwise.divergence
    monkeypatch.setattr(
        stepwise, "divergence", lambda law, temperature: right(law, 1.2 * temperature)
    )
    (_, check) = drawn_fusion(world, "", 1.4)
    assert check.what.startswith("divergence") and not check.ok


def test_chi_square_is_scipys_and_refuses_what_tells_nothing(world: WordWorld) -> None:
    tree, law = world.tree, world.base
    drawn = [tree.responses[k] for k in torch.multinomial(
        torch.from_numpy(law), 4000, replacement=True, generator=torch.manual_seed(1)
    )]  # fmt: skip
    p = chi_square(tree, law, drawn)
    assert LEAST_P < p < 1
    assert chi_square(tree, law, [*drawn, ((3,), True)]) == 0, "no word"
    few = law * (law > 0.05)
    assert chi_square(tree, few / few.sum(), drawn) == 0, "ruled out"
    assert chi_square(tree, law, drawn[:20]) == 0, "too few cells"
    every = [20, 30, 25, 25, 22, 28, 24, 26, 21, 29]
    uniform = type("", (), {"responses": [((k,), True) for k in range(10)]})()
    given = [((k,), True) for k, n in enumerate(every) for _ in range(n)]
    expected = stats.chisquare(every).pvalue
    made = chi_square(uniform, torch.full((10,), 0.1).double().numpy(), given)
    assert made == pytest.approx(expected)


def test_rewards_and_lengths_are_those_of_the_check(world: WordWorld) -> None:
    rewards = Rewards(0)
    assert rewards.of_ids((1, 2)) == rewards.of_text("1 2") == rewards.rate([(0, "1 2")])[0]
    assert LENGTH == world.tree.length == 4
