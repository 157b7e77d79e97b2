"""All third users vote: against each one's own verdict, on couples, at most 256 of them."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.benchmarks import Dataset, mirrors
from palate.comparison import evaluate, findings_of, plan_grid
from palate.contexts import build_context
from palate.errors import BenchmarkError, SpecError
from palate.evaluation import Work, adapt_to, make_rows, user_keys_fn
from palate.learning import PersonalModel, UserStates, fit, method_of, take
from palate.records import (
    Choice,
    Judge,
    Message,
    PreferencePair,
    ScorerInfo,
    Settings,
    Slate,
    user_key,
)
from palate.scorers import build_scorer, personal
from palate.seeding import rng
from palate.session import default_session

WORDS = ("run!", "now", "rest", "quietly", "go!!", "perhaps", "I", "think", "so", "NEVER", "ok?")
METHODS = ("user-heads", "lore", "pref", "mixture", "pal-a", "pal-b", "vpl")


def text(n: int) -> str:
    stream = rng("text", n)
    return " ".join(stream.choice(WORDS, size=int(stream.integers(2, 12))))


def liking(user: int, response: str) -> float:
    """Loud or calm, long or short: four tastes, and a whim."""
    measure = response.count("!") if user % 2 else len(response) / 8
    return (1 if user % 4 < 2 else -1) * measure + rng("whim", user, response).normal()


def choices(user: int, n: int = 20) -> list[Choice]:
    drawn = [(text(2 * k + 100 * user), text(2 * k + 1 + 100 * user)) for k in range(n)]
    found = []
    for k, both in enumerate(drawn):
        rejected, chosen = sorted(both, key=lambda response: liking(user, response))
        found.append(Choice(question=f"Q{k}?", chosen=chosen, rejected=rejected))
    return found


HISTORY = {f"u{k}": choices(k) for k in range(9)}


def votes() -> Dataset:
    """Nine users' votes on thirty pairs, several on each."""
    stream = rng("votes")
    rows = []
    for k in range(30):
        a, b = text(5000 + k), text(6000 + k)
        for user in stream.choice(9, size=4, replace=False).tolist():
            chosen, rejected = (a, b) if stream.random() < 0.5 else (b, a)
            rows.append(PreferencePair(
                id=f"{k}-{user}", user_id=f"u{user}", text=f"Test {k % 7}?", chosen=chosen,
                rejected=rejected, split="test",
            ))  # fmt: skip
    for name, own in HISTORY.items():
        rows += [
            PreferencePair(id=f"past-{name}-{k}", user_id=name, text=choice.question,
                           chosen=choice.chosen, rejected=choice.rejected, split="adapt")
            for k, choice in enumerate(own)
        ]  # fmt: skip
    return Dataset("votes", tuple(rows)).select()


VOTES = votes()
COUPLES = mirrors(VOTES)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    made = tmp_path_factory.mktemp("models")
    for name in METHODS:
        (made / name).mkdir()
        fit(name, HISTORY, ["style"], default_session(), Settings()).save(made / name)
    return made


def by_hand(spec: str, pairs: Dataset, excluded: list[set[str]]) -> list[float]:
    """Each row's share, third user by third user, with the scorer of their own states."""
    own = adapt_to(build_scorer(spec, default_session()), pairs, spec)
    found = []
    for pair, barred in zip(pairs.pairs, excluded, strict=True):
        question = (Message(role="user", content=pair.text),)
        slates = [
            Slate(question=question, candidates=(pair.chosen, pair.rejected), user=user_key(user))
            for user in HISTORY if user not in barred
        ]  # fmt: skip
        scores = np.array([scores.values for _, scores in sorted(own.score(slates))], np.float32)
        wins, losses = scores[:, 0] > scores[:, 1], scores[:, 0] < scores[:, 1]
        found.append(float(np.mean(wins + 0.5 * (~wins & ~losses))))
    return found


@pytest.mark.parametrize("minus", ["", "minus=prior&"])
@pytest.mark.parametrize("method", METHODS)
def test_the_share_is_the_mean_of_third_users_own_verdicts(folders, method, minus):
    spec = f"personal:{folders / method}?{minus}"
    if method == "vpl":  # learns nothing from nine users: states that differ are drawn
        crowd(folders / method, 9, "u").save(folders / f"{method}.safetensors")
        spec += f"users={folders / method}.safetensors&"
    run = evaluate(VOTES, f"{spec}state=stranger", "none", root=None)
    expected = by_hand(f"{spec}state=own", VOTES, [{pair.user_id} for pair in VOTES.pairs])
    if minus and "users" not in spec:
        nobody = evaluate(VOTES, f"{spec}shots=0&state=stranger", "none", root=None)
        assert (nobody.verdicts.values == 0.5).all(), "the prior less itself is nothing"
    assert run.verdicts.values == pytest.approx(expected, abs=1e-12)
    assert len(set(expected)) > 3
    for row in run.verdicts.rows:
        assert row.margin is None and row.share is not None and row.orders == ()
        side = np.sign(round(row.share - 0.5, 12))
        assert row.outcome == {1: "chosen", 0: "tie", -1: "rejected"}[int(side)]


@pytest.mark.parametrize("method", METHODS)
def test_on_couples_third_users_get_exactly_one_half(folders, method):
    spec = f"personal:{folders / method}?"
    run = evaluate(COUPLES, f"{spec}state=stranger", "none", root=None)
    a, b = run.verdicts.couples.T
    assert len(a) == len(COUPLES.couples) > 10
    values = run.verdicts.values
    assert ((values[a] + values[b]) / 2 == 0.5).all(), "to the last bit"
    figure = run.summary.mirrored_accuracy
    assert (figure.value, figure.low, figure.high, figure.n) == (0.5, 0.5, 0.5, len(a))
    assert run.summary.concordance.value is None
    partner = {COUPLES.pairs[i].id: COUPLES.pairs[j].user_id
               for x, y in COUPLES.couples for i, j in ((x, y), (y, x))}  # fmt: skip
    excluded = [{pair.user_id, partner[pair.id]} for pair in COUPLES.pairs]
    expected = by_hand(f"{spec}state=own", COUPLES, excluded)
    assert values == pytest.approx(expected, abs=1e-12)


@given(st.integers(1, 400), st.data())
def test_two_shares_of_a_couple_add_to_one_in_floats(n: int, data: st.DataObject) -> None:
    margin = data.draw(st.integers(-2 * n, 2 * n)) / (2 * n)
    assert ((1 + margin) / 2 + (1 - margin) / 2) / 2 == 0.5


def test_both_rows_of_a_couple_are_one_piece_of_work(folders):
    spec = f"personal:{folders / 'lore'}?state=stranger"
    judge = adapt_to(build_scorer(spec, default_session()), COUPLES, spec)
    assert isinstance(judge, Judge)
    user_keys = user_keys_fn(judge, judge.info, COUPLES, 0)
    rows = make_rows(COUPLES, build_context("none", default_session()), seed=0, user_keys=user_keys)
    for a, b in COUPLES.couples:
        ours, theirs = rows.slate(a), rows.slate(b)
        assert ours == theirs
        assert ours.user is None and len(ours.excluded) == 2
        users = {COUPLES.pairs[a].user_id, COUPLES.pairs[b].user_id}
        assert set(ours.excluded) == set(map(user_key, users))


def crowd(folder, n: int, name: str = "c") -> UserStates:
    """States of n users, drawn around the prior's."""
    trained = PersonalModel.load(folder)
    prior = trained.model.prior()
    states = {
        part: (np.repeat(array, n, 0) + 3 * rng("crowd", part).normal(size=(n, *array.shape[1:])))
        .astype(np.float32) for part, array in prior.items()
    }  # fmt: skip
    return UserStates(tuple(user_key(f"{name}{k}") for k in range(n)), states, trained.fingerprint)


def slate(n: int, *excluded: str) -> Slate:
    return Slate(
        question=(Message(role="user", content="Well?"),), candidates=(text(n), text(n + 1)),
        excluded=tuple(sorted(map(user_key, excluded))),
    )  # fmt: skip


def test_at_most_256_vote_by_seed_and_whatever_the_order_of_states(folders, tmp_path):
    folder = folders / "user-heads"
    states = crowd(folder, 300)
    states.save(tmp_path / "a.safetensors")
    order = rng("turned").permutation(300)
    turned = UserStates(
        tuple(states.keys[k] for k in order), take(states.states, order), states.model
    )
    turned.save(tmp_path / "b.safetensors")
    asked = [slate(n, *who) for n in range(40) for who in ((), ("c0",), ("c1", "c2"), ("x", "y"))]

    def judged(file: str, seed: int = 0) -> list[float | None]:
        spec = f"personal:{folder}?state=stranger&users={tmp_path / file}"
        found = dict(build_scorer(spec, default_session(), Settings(seed=seed)).judge(asked))
        return [found[k].margin for k in range(len(asked))]

    first = judged("a.safetensors")
    assert first == judged("b.safetensors")
    assert first != judged("a.safetensors", seed=1)
    own = build_scorer(f"personal:{folder}?users={tmp_path / 'a.safetensors'}", default_session())
    heads = own.trained.model.heads_of(states.states)
    for margin, one in zip(first, asked, strict=True):
        assert margin is not None
        assert margin * 256 == round(margin * 256), "256 votes of 1, 0 or −1"
        table = own.trained.scaling.apply(own.vectors([one], 2).table)[0].astype(np.float64)
        of_all = np.sign(heads @ (table[0] - table[1])).mean()
        assert abs(margin - of_all) < 0.15, "256 of 300 say nearly what all do"
    assert {len(first), len(asked)} == {160}


def test_who_votes_is_the_same_for_the_rows_of_a_couple_and_never_the_excluded(folders):
    voters = [user_key(f"c{k}") for k in range(258)]
    slates = [slate(0, "c3", "c250"), slate(1, "c3", "c250"), slate(2, "c3", "z"), slate(3)]
    allowed = personal.may_vote(slates, voters)
    assert allowed.sum(axis=0).tolist() == [256, 256, 256, 256]
    assert (allowed[:, 0] == allowed[:, 1]).all()
    assert not allowed[3, :3].any() and not allowed[250, :2].any()
    assert allowed[256:, 0].all(), "two more stand ready for the two excluded"
    assert allowed[256, 2] and not allowed[257, 2] and not allowed[256:, 3].any()


@settings(max_examples=50)
@given(st.lists(st.sets(st.integers(0, 6), max_size=2), min_size=1, max_size=5))
def test_few_users_all_vote_but_the_excluded(barred: list[set[int]]) -> None:
    voters = [user_key(f"c{k}") for k in range(5)]
    slates = [slate(0, *(f"c{k}" for k in some)) for some in barred]
    allowed = personal.may_vote(slates, voters)
    assert allowed.T.tolist() == [[k not in some for k in range(5)] for some in barred]


def test_where_nobody_can_vote_the_row_is_unscored(folders):
    spec = f"personal:{folders / 'pref'}?state=stranger"
    for history, excluded in (({}, ()), ({"u1": choices(1), "u2": choices(2)}, ("u1", "u2"))):
        judge = build_scorer(spec, default_session()).adapted(history)
        ((_, judgement),) = judge.judge([slate(0, *excluded)])
        assert (judgement.margin, judgement.reason) == (None, "no stranger")
    alone = replace(VOTES, rows=tuple(p for p in VOTES.pairs if p.user_id == "u1"),
                    history=tuple(p for p in VOTES.history if p.user_id == "u1"))  # fmt: skip
    run = evaluate(alone, spec, "none", root=None)
    assert run.summary.unscored_reasons == {"no stranger": len(alone.pairs)}


def test_more_states_are_no_draws_and_it_is_said_in_one_line(folders):
    with pytest.raises(SpecError, match="all third users vote; draws is for p-dpo") as caught:
        build_scorer(f"personal:{folders / 'lore'}?state=stranger&draws=3", default_session())
    assert "\n" not in str(caught.value)


def test_a_worker_gets_the_same_votes(folders):
    judge = build_scorer(f"personal:{folders / 'lore'}?state=stranger", default_session()).adapted(
        HISTORY
    )
    asked = [slate(n, "u1") for n in range(5)]
    sent = pickle.loads(pickle.dumps(judge))
    assert list(sent.judge(asked)) == list(judge.judge(asked))
    assert sent.info == judge.info
    assert any("9 users' states vote" in note for note in judge.notes())


def test_a_finished_run_judges_nothing(folders, tmp_path, monkeypatch):
    spec = f"personal:{folders / 'lore'}?state=stranger"
    first = evaluate(VOTES, spec, "none", root=tmp_path)
    monkeypatch.setattr(personal.ThirdUsers, "judge", lambda self, slates: iter(()))
    assert evaluate(VOTES, spec, "none", root=tmp_path).summary == first.summary


@pytest.mark.parametrize("method", METHODS)
def test_scores_of_each_state_are_those_of_one_state_at_a_time(folders, method):
    assert method_of(method).method == method
    trained = PersonalModel.load(folders / method)
    features = trained.features(default_session(), Settings())
    states = trained.adapt(HISTORY, features).states
    own = build_scorer(f"personal:{folders / method}?state=prior", default_session())
    read = own.vectors([slate(n) for n in range(7)], 2)
    each = trained.score_each(states, read.table, read.questions)
    assert each.shape == (9, 7, 2)
    for user in range(9):
        same = take(states, np.full(7, user))
        alone = trained.score(same, read.table, read.questions)
        np.testing.assert_allclose(each[user], alone, rtol=1e-9, atol=1e-12)


def with_traits(pairs: Dataset) -> Dataset:
    """Users of three clubs, by their number."""

    def told(rows):
        return tuple(row.model_copy(update={"traits": {"club": str(int(row.user_id[1:]) % 3)}})
                     for row in rows)  # fmt: skip

    return replace(pairs, rows=told(pairs.rows), history=told(pairs.history))


def test_of_the_kind_those_vote_who_share_the_trait(folders):
    spec, pairs = f"personal:{folders / 'lore'}?", with_traits(COUPLES)
    run = evaluate(pairs, f"{spec}state=stranger&same=club", "none", root=None)
    partner = {pairs.pairs[i].id: pairs.pairs[j].user_id
               for x, y in pairs.couples for i, j in ((x, y), (y, x))}  # fmt: skip
    of_other_clubs = [
        {user for user in HISTORY if int(user[1:]) % 3 != int(pair.user_id[1:]) % 3}
        for pair in pairs.pairs
    ]
    excluded = [
        {pair.user_id, partner[pair.id], *others}
        for pair, others in zip(pairs.pairs, of_other_clubs, strict=True)
    ]
    assert {len(HISTORY) - len(barred) for barred in excluded} == {1, 2}
    expected = by_hand(f"{spec}state=own", pairs, excluded)
    assert run.verdicts.values == pytest.approx(expected, abs=1e-12)


def test_of_the_kind_is_a_state_of_its_own_in_a_grid(folders):
    spec = f"personal:{folders / 'lore'}"
    states = ["", "?state=prior", "?state=stranger", "?same=club&state=stranger"]
    grid = evaluate(with_traits(VOTES), [spec + it for it in states], ["none"], root=None)
    (parts,) = grid.kinds
    assert (parts.same, parts.against, parts.n) == ("club", "state=stranger", len(VOTES.pairs))
    assert parts.value == pytest.approx(parts.individual.value + parts.of_kind.value)
    assert {(gain.scorer, gain.against) for gain in grid.gains} == {
        (spec, "state=prior"), (spec, "state=stranger"),
    }  # fmt: skip
    assert [it.scorer for it in findings_of(grid)] == [spec], "a control is no finding"
    plan = plan_grid([with_traits(VOTES)], [spec], None, Work.of(root=None), kinds="club")
    assert [(cell.scorer, cell.context) for cell in plan] == [(spec + it, "none") for it in states]


def test_what_no_state_shares_is_no_stranger_and_what_is_no_kind_is_refused(folders):
    spec = f"personal:{folders / 'lore'}"
    alone = with_traits(VOTES)
    rows = tuple(row.model_copy(update={"traits": {"club": row.user_id}}) for row in alone.rows)
    pairs = replace(alone, rows=rows, history=tuple(
        row.model_copy(update={"traits": {"club": row.user_id}}) for row in alone.history
    ))  # fmt: skip
    run = evaluate(pairs, f"{spec}?state=stranger&same=club", "none", root=None)
    assert run.summary.unscored_reasons == {"no stranger": len(rows)}
    for options, problem in {
        "same=club": "same chooses strangers; it goes with state=stranger",
        "state=prior&same=club": "it goes with state=stranger",
        "state=stranger&same=": "name each trait once",
    }.items():
        with pytest.raises(SpecError, match=problem):
            build_scorer(f"{spec}?{options}", default_session())
    with pytest.raises(BenchmarkError, match=r"votes has no trait 'town' \(traits: club; --map"):
        evaluate(alone, f"{spec}?state=stranger&same=town", "none", root=None)


def test_where_one_state_is_drawn_it_is_of_the_kind():
    class Drawing:
        state, same, wants_choices = "stranger", "club", False
        known = tuple(sorted(map(user_key, HISTORY)))
        adapted = join = print

    pairs, names = with_traits(VOTES), {user_key(user): user for user in HISTORY}
    keys = user_keys_fn(Drawing(), ScorerInfo(fingerprint="f", needs_user=True), pairs, 0)
    drawn = {pair.user_id: {names[keys(pair, k).user] for k in range(2)} for pair in pairs.pairs}
    assert drawn == {
        user: {f"u{k}" for k in range(9) if k % 3 == int(user[1:]) % 3} - {user} for user in drawn
    }
    assert all(keys(pair, 2).no_stranger for pair in pairs.pairs)
