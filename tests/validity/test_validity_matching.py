"""Who and what is compared: the same rows, the same users, the same questions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_scorers import Hazy, world

from palate.errors import ComparisonError
from palate.evaluation import evaluate
from palate.metrics import couple_mean, user_mean
from palate.metrics.ranks import Replicates, statistics
from palate.metrics.ranks.over_items import range_over_items
from palate.metrics.two_way import two_way_mean
from palate.records import Scores
from palate.reports.validity import validity_tables
from palate.runs import Run
from palate.validity import read_downstream, validity
from palate.validity.downstream_file import Downstream
from palate.validity.figures import Units
from palate.validity.matching import Side, match, replicates


def without_rows(below: Downstream, users: set[str]) -> Downstream:
    gone = np.isin(below.users, sorted(users))
    values = {one: np.where(gone, np.nan, own) for one, own in below.values.items()}
    return replace(below, values=values)


def test_users_are_the_same_whatever_their_benchmark_is_called(planted):
    runs, file = planted(8)
    (below,) = read_downstream(file)
    named, elsewhere = (
        validity(runs, [replace(below, benchmark=name)], metrics=["accuracy"])
        for name in ("planted", "planted, a part of it")
    )
    assert named.coefficients[0].agreements == elsewhere.coefficients[0].agreements


def test_two_benchmarks_and_fewer_users_below_are_compared(planted):
    runs, file = planted(8)
    (below,) = read_downstream(file)
    other = [Run(r.summary.model_copy(update={"benchmark": "elsewhere"}), r.verdicts) for r in runs]
    fewer = without_rows(below, {"u0", "u1"})
    (difference,) = validity([*runs, *other], [fewer], metrics=["accuracy"]).differences
    assert difference.between == 1
    assert difference.differences[0].value == 0
    assert difference.needed is None
    assert difference.p_holm == 1


def test_other_questions_under_the_same_ids_are_refused(planted):
    runs, _ = planted(4, n_rows=40)
    _, file = planted(4, n_rows=40, seed=1)
    with pytest.raises(ComparisonError, match="of which the downstream results have 0; they are"):
        validity(runs, read_downstream(file))


def test_runs_of_other_rows_are_refused(planted):
    runs, file = planted(4, n_rows=40)
    fewer, _ = planted(4, n_rows=30)
    with pytest.raises(ComparisonError, match="hazy3 under none ran on other rows of planted"):
        validity([*runs[:3], fewer[3]], read_downstream(file))


def test_a_model_that_changed_between_the_commands_is_refused(planted):
    runs, file = planted(4, n_rows=40)
    (below,) = read_downstream(file)
    name = ("hazy1", "none")
    assert below.models[name] == runs[1].summary.models == ()

    def with_model(run: Run, content: str) -> Run:
        return Run(run.summary.model_copy(update={"models": (content,)}), run.verdicts)

    known = replace(below, models={name: ("first",)})
    again = [runs[0], with_model(runs[1], "first"), *runs[2:]]
    assert validity(again, [known]).coefficients
    assert validity(runs, [known]).coefficients, "an older run does not say what it was"
    other = [runs[0], with_model(runs[1], "second"), *runs[2:]]
    both = validity([other[1], *again], [known])
    assert both.coefficients == validity(again, [known]).coefficients, "the one that picked counts"
    with pytest.raises(ComparisonError, match="hazy1 was another model when it ran on planted"):
        validity(other, [known])


def test_all_are_held_to_the_rows_that_all_scored(planted):
    runs, file = planted(3, n_rows=40)

    class Silent(Hazy):
        def score(self, slates):
            for k, found in super().score(slates):
                yield k, found if k % 4 else Scores(values=(None, None))

    pairs, _ = world(40)
    half = evaluate(Silent("hazy2", 0.0), pairs, name="hazy2", root=None)
    found = validity([*runs[:2], half], read_downstream(file), metrics=["accuracy"])
    (one,) = found.coefficients
    kept = ~np.isnan(half.verdicts.values)
    assert (one.units, one.of) == (int(kept.sum()), 40)
    assert 0 < one.units < 40
    assert one.figures[0] == pytest.approx(float(runs[0].verdicts.values[kept].mean()))
    assert any("that every contestant scored (hazy2 under none the fewest)" in note
               for note in validity_tables(found)[0].notes)  # fmt: skip


def test_downstream_noise_is_widened_as_the_curves_intervals_are():
    # The same variance as metrics.two_way of what sets each contestant apart; a user has several
    # rows of one question.
    stream = np.random.default_rng(2)
    users, questions = stream.integers(6, size=60), stream.integers(9, size=60)
    values = {(f"s{k}", "none"): own for k, own in enumerate(
        stream.random((3, 60)) / 2 + stream.random((3, 9))[:, questions] / 2
    )}  # fmt: skip
    below = Downstream(
        benchmark="b", policy="p", samples="s", quality="q", surrogate=False, k=4, n=8,
        values=values, rows={}, users=users.astype(str), questions=questions.astype(str),
    )  # fmt: skip
    apart = np.array(list(values.values()))
    apart = apart - apart.mean(axis=0)
    for widened, own in zip(below.spread(list(values)), apart, strict=True):
        both = two_way_mean(own, users, questions, null=0.0, bounds=(-1.0, 1.0))
        alone = user_mean(own, users, null=0.0, bounds=(-1.0, 1.0))
        assert widened == pytest.approx(both.se / alone.se)
        assert widened > 1.1


def test_contrasts_are_over_couples_and_a_blind_scorer_does_not_move():
    # Rows 2c and 2c + 1 mirror each other. Of blind scorers nothing is noise; of others the noise
    # is that of couples, as in the curves' intervals.
    stream = np.random.default_rng(3)
    users = np.concatenate([stream.choice(9, 2, replace=False) for _ in range(20)]).astype(str)
    questions = np.repeat(np.arange(20), 2)
    blind = stream.random(20)
    values = {
        ("blind", "none"): np.stack([blind, 1 - blind], axis=1).ravel(),
        ("one", "none"): stream.random(40),
        ("other", "none"): stream.random(40),
    }
    below = Downstream(
        benchmark="b", policy="p", samples="s", quality="contrast of q", surrogate=False, k=4, n=8,
        values=values, rows={}, users=users, questions=questions.astype(str),
        mirrors=np.arange(40) ^ 1,
    )  # fmt: skip
    figures = below.figures
    assert figures["blind", "none"].value == pytest.approx(0.5)
    assert list(figures["blind", "none"].without.values()) == pytest.approx([0.5] * 9)
    couples = {one: own.reshape(-1, 2).mean(axis=1) for one, own in values.items()}
    out = couples["one", "none"][[users[2 * c] != "4" != users[2 * c + 1] for c in range(20)]]
    assert figures["one", "none"].without["4"] == pytest.approx(out.mean())
    # The blind one shows that nothing moves all alike; replicates have the dyadic variance.
    apart = np.array(list(couples.values()))
    names = sorted(set(users.tolist()))
    for k, one in enumerate(values):
        moved = np.array([figures[one].without[u] for u in names]) - figures[one].value
        widened = moved * below.spread(list(values))[k]
        dyadic = couple_mean(apart[k], users[::2], users[1::2])
        plain = len(names) - 1
        assert np.sqrt(plain / len(names) * (widened @ widened)) == pytest.approx(dyadic.se)


def test_who_is_blind_in_both_figures_is_no_evidence():
    # Four readers in any order, and ten blind ones at ½ in both: they would make p small.
    stream = np.random.default_rng(4)
    a = np.array([f"u{k % 7}" for k in range(20)])
    b = np.array([f"u{(3 * k + 1) % 7 + 7}" for k in range(20)])
    readers = [(f"reader{k}", "profile:2") for k in range(4)]
    blind = [(f"blind{k}", "none") for k in range(10)]
    above = {one: Units(stream.choice([0.5, 1.0], 20), (a, b)) for one in readers}
    above |= {one: Units(np.full(20, 0.5), (a, b)) for one in blind}
    values = {one: stream.random(40) for one in readers}
    for one in blind:
        own = stream.random(20)
        values[one] = np.stack([own, 1 - own], axis=1).ravel()
    below = Downstream(
        benchmark="b", policy="p", samples="s", quality="contrast of q", surrogate=False, k=4, n=8,
        values=values, rows={}, users=np.stack([a, b], axis=1).ravel(),
        questions=np.repeat(np.arange(20), 2).astype(str), mirrors=np.arange(40) ^ 1,
    )  # fmt: skip
    found = match(Side("above", "mirrored accuracy", above, {}), below)
    assert found.contestants == readers
    assert set(found.unmoved) == set(blind)
    assert found.held.units == 20
    # Whose users cancel is no blind scorer: couples differ, though no user moves the mean.
    ring = replace(
        below, users=np.array(list("abbccdda")), questions=np.repeat(list("wxyz"), 2),
        mirrors=np.arange(8) ^ 1,
        values={("ring", "none"): np.repeat([0.9, 0.1, 0.9, 0.1], 2),
                ("blind", "none"): np.full(8, 0.5)},
    )  # fmt: skip
    assert ring.still == {("blind", "none")}
    # What is noisy on one side is a measurement, and stays.
    plain = replace(below, quality="q", mirrors=None)
    stays = match(Side("above", "mirrored accuracy", above, {}), plain)
    assert len(stays.contestants) == 14
    assert stays.unmoved == ()
    # With nobody else there is nothing to leave out.
    only = match(Side("above", "shift", {one: above[one] for one in blind}, {}), below)
    assert len(only.contestants) == 10


def test_users_whose_couples_cancel_leave_the_noise_unknown():
    # A ring of four users: nobody's leaving moves the mean, though couples differ.
    users = np.array(list("abbccdda"))
    x = np.repeat([0.9, 0.1, 0.9, 0.1], 2)
    names = [(name, "none") for name in ("up", "down", "flat")]
    below = Downstream(
        benchmark="b", policy="p", samples="s", quality="contrast of q", surrogate=False, k=4, n=8,
        values=dict(zip(names, (x, 1 - x, np.full(8, 0.5)), strict=True)), rows={}, users=users,
        questions=np.repeat(list("wxyz"), 2), mirrors=np.arange(8) ^ 1,
    )  # fmt: skip
    assert np.isnan(below.spread(names)).tolist() == [True, True, False]
    units = {one: Units(np.linspace(0, 1, 8), (users,)) for one in below.values}
    matched = match(Side("above", "accuracy", units, {}), below)
    (noise,) = replicates([matched], names)
    assert noise.benchmark is noise.downstream is None
    # One question holds all: its own noise is unknown, that of couples is not.
    alone = replace(below, questions=np.repeat("w", 8), users=np.array(list("abcdefgh")))
    apart = replace(alone, questions=below.questions)
    assert alone.spread(names) == pytest.approx(apart.spread(names))
    assert alone.spread(names)[0] < 1


@pytest.mark.slow
def test_intervals_over_items_cover_where_users_and_questions_are_shared():
    # 20 scorers, 48 questions put to two of 32 users each. What users and questions do to a scorer
    # is the same for accuracy and quality, and larger than the scorers' differences: so the two
    # agree by luck that goes together, which intervals must know.
    stream = np.random.default_rng(5)
    names = [(f"s{k}", "none") for k in range(20)]
    skill = np.linspace(0, 0.6, 20)
    for foretells in (True, False):
        seen = skill if foretells else skill[stream.permutation(20)]
        truth = float(statistics()[0](seen, skill)[0])
        covered, taken_apart, orders = [], [], []
        for _ in range(200):
            asked = np.repeat(np.arange(48), 2)
            who = np.concatenate([stream.choice(32, 2, replace=False) for _ in range(48)])
            shared = (stream.normal(0, 0.8, (32, 20))[who]
                      + stream.normal(0, 0.8, (48, 20))[asked])  # fmt: skip
            x = seen + shared + stream.normal(0, 0.4, (96, 20))
            y = skill + shared + stream.normal(0, 0.4, (96, 20))
            users = np.char.add("u", who.astype(str))
            below = Downstream(
                benchmark="below", policy="p", samples="s", quality="q", surrogate=False, k=4,
                n=8, values=dict(zip(names, y.T, strict=True)), rows={}, users=users,
                questions=asked.astype(str),
            )  # fmt: skip
            units = {one: Units(own, (users,)) for one, own in zip(names, x.T, strict=True)}
            matched = match(Side("above", "accuracy", units, {}), below)
            (noise,) = replicates([matched], names)
            level = [matched.held.figures[one].value for one in names]
            both = np.array(level), y.mean(axis=0)
            apart = Replicates(noise.benchmark, noise.downstream)
            for hits, some in ((covered, noise), (taken_apart, apart)):
                found = range_over_items(statistics()[0], *both, some)
                hits.append(found.low - 1e-9 <= truth <= found.high + 1e-9)
            orders.append(float(statistics()[0](*both)[0]))
        assert np.mean(covered) >= 0.93, (foretells, np.mean(covered))
        if not foretells:
            assert np.mean(orders) > truth + 0.1
            assert np.mean(taken_apart) < 0.6, "as if their noise were independent"
