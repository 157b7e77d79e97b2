"""Who and what is compared: the same rows, the same users, the same questions."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from planted_scorers import Hazy, quality_of, world

from palate.comparison import evaluate
from palate.errors import ComparisonError
from palate.metrics import Clusters
from palate.records import Scores
from palate.reports.validity import tables as validity_tables
from palate.runs import Run
from palate.uses import RowFigures
from palate.validity import validity
from palate.validity.metric_values import MetricColumn, UnitValues, match


def renamed(best, name):
    return replace(best, summary=best.summary.model_copy(update={"benchmark": name}))


def test_users_are_the_same_whatever_their_benchmark_is_called(planted):
    runs, best = planted(8, n_rows=60)
    named, elsewhere = (
        validity([*runs, renamed(best, name)], metrics=["accuracy"], root=None).summary
        for name in ("planted", "planted, a part of it")
    )
    assert named.coefficients[0].agreements == elsewhere.coefficients[0].agreements


def test_other_questions_under_the_same_ids_are_refused(planted):
    runs, _ = planted(4, n_rows=40)
    _, best = planted(4, n_rows=40, seed=1)
    with pytest.raises(ComparisonError, match="of which the downstream results have 0; they are"):
        validity([*runs, best], root=None)


def test_runs_of_other_rows_are_refused(planted):
    runs, best = planted(4, n_rows=40)
    fewer, _ = planted(4, n_rows=30)
    with pytest.raises(ComparisonError, match="hazy3 under none on planted is of other rows"):
        validity([*runs[:3], fewer[3], best], root=None)


def test_a_model_that_changed_between_the_commands_is_refused(planted):
    runs, best = planted(4, n_rows=40)
    name = ("hazy1", "none")
    (below,) = best.downstream()
    assert below.origins[name].models == runs[1].summary.models == ()

    def with_model(run: Run, content: str) -> Run:
        return Run(run.summary.model_copy(update={"models": (content,)}), run.verdicts)

    selections = tuple(
        one.model_copy(update={"models": ("first",)} if one.scorer == "hazy1" else {})
        for one in best.summary.cells
    )
    known = replace(best, summary=best.summary.model_copy(update={"cells": selections}))
    again = [runs[0], with_model(runs[1], "first"), *runs[2:]]
    assert validity([*again, known], root=None).summary.coefficients
    assert validity([*runs, known], root=None).summary.coefficients, "a run may not say what it was"
    other = [runs[0], with_model(runs[1], "second"), *runs[2:]]
    assert validity([other[1], *again, known], root=None) == validity([*again, known], root=None), (
        "the one that picked"
    )
    with pytest.raises(ComparisonError, match="hazy1 under none is one model"):
        validity([*other, known], root=None)
    # Elsewhere users' states are others, so that only the model can be the same.
    with pytest.raises(ComparisonError, match="hazy1 under none is one model"):
        validity([*other, renamed(known, "elsewhere")], root=None)
    assert validity([*again, renamed(known, "elsewhere")], root=None).summary.coefficients


def test_all_are_held_to_the_rows_that_all_scored(planted):
    runs, best = planted(3, n_rows=40)

    class Silent(Hazy):
        def score(self, slates):
            for k, found in super().score(slates):
                yield k, found if k % 4 else Scores(values=(None, None))

    pairs, _ = world(40)
    half = evaluate(pairs, Silent("hazy2", 0.0), "none", name="hazy2", root=None)
    found = validity([*runs[:2], half, best], metrics=["accuracy"], root=None)
    (one,) = found.summary.coefficients
    kept = ~np.isnan(half.verdicts.values)
    assert (one.n, one.n_largest, one.smallest) == (int(kept.sum()), 40, ("hazy2", "none"))
    assert 0 < one.n < 40
    expected = float(runs[0].verdicts.values[kept].mean())
    assert one.scorers[0].metric_value == pytest.approx(expected)
    assert any("all scorers scored (hazy2 under none has the fewest)" in note
               for note in validity_tables(found)[0].notes)  # fmt: skip


def test_contrasts_are_over_couples() -> None:
    # Rows 2c and 2c + 1 mirror each other; a blind scorer is at ½ in every couple.
    stream = np.random.default_rng(3)
    users = np.concatenate([stream.choice(9, 2, replace=False) for _ in range(20)]).astype(str)
    blind = stream.random(20)
    values = {
        ("blind", "none"): np.stack([blind, 1 - blind], axis=1).ravel(),
        ("reader", "none"): stream.random(40),
        ("other", "none"): stream.random(40),
    }
    values["reader", "none"][6:8] = values["other", "none"][6:8] = math.nan
    values["blind", "none"][6:8] = math.nan
    below = quality_of(
        values, users=users, questions=np.repeat(np.arange(20) // 2, 2).astype(str),
        mirrors=np.arange(40) ^ 1,
    )  # fmt: skip
    names = [("other", "none"), ("blind", "none")]
    table = below.table(names)
    rated = [c for c in range(20) if c != 3]
    expected = values["other", "none"].reshape(-1, 2).mean(axis=1)[rated]
    assert table.scorers == tuple(names)
    assert table.values == pytest.approx(np.stack([expected, np.full(19, 0.5)], axis=1))
    assert table.figures == {names[0]: pytest.approx(expected.mean()), names[1]: pytest.approx(0.5)}
    # Two couples share a question.
    assert table.clusters.couples
    assert table.clusters.items is not None
    first, second = table.clusters.users
    for k, c in enumerate(rated):
        together = {int(first[k]), int(second[k])}
        same = [{int(first[j]), int(second[j])} & together for j in range(19)]
        shared = [bool({*users[2 * d : 2 * d + 2]} & {*users[2 * c : 2 * c + 2]}) for d in rated]
        assert [bool(each) for each in same] == shared
    assert below.constant == {("blind", "none")}


def test_who_is_blind_in_both_figures_is_no_evidence():
    # Four readers in any order, and ten blind ones at ½ in both: they would make p small.
    stream = np.random.default_rng(4)
    a = np.array([f"u{k % 7}" for k in range(20)])
    b = np.array([f"u{(3 * k + 1) % 7 + 7}" for k in range(20)])
    couples = Clusters.of(a, b)
    readers = [(f"reader{k}", "profile:2") for k in range(4)]
    blind = [(f"blind{k}", "none") for k in range(10)]
    above = {one: UnitValues(stream.choice([0.5, 1.0], 20), couples) for one in readers}
    above |= {one: UnitValues(np.full(20, 0.5), couples) for one in blind}
    values = {one: stream.random(40) for one in readers}
    for one in blind:
        own = stream.random(20)
        values[one] = np.stack([own, 1 - own], axis=1).ravel()
    below = quality_of(
        values, users=np.stack([a, b], axis=1).ravel(),
        questions=np.repeat(np.arange(20), 2).astype(str), mirrors=np.arange(40) ^ 1,
    )  # fmt: skip
    found = match(MetricColumn("above", "mirrored accuracy", above, {}), below)
    assert found.scorers == tuple(readers)
    assert set(found.constant) == set(blind)
    assert len(found.table.clusters) == 20
    # Whose users cancel is no blind scorer: couples differ, though no user moves the mean.
    ring = replace(
        below, figures=RowFigures(list("abbccdda"), np.repeat(list("wxyz"), 2)),
        mirrors=np.arange(8) ^ 1,
        values={("ring", "none"): np.repeat([0.9, 0.1, 0.9, 0.1], 2),
                ("blind", "none"): np.full(8, 0.5)},
    )  # fmt: skip
    assert ring.constant == {("blind", "none")}
    # What is noisy on one side is a measurement, and stays.
    plain = replace(below, mirrors=None)
    stays = match(MetricColumn("above", "mirrored accuracy", above, {}), plain)
    assert len(stays.scorers) == 14
    assert stays.constant == ()
    # With nobody else there is nothing to leave out.
    only = match(
        MetricColumn("above", "concordance", {one: above[one] for one in blind}, {}), below
    )
    assert len(only.scorers) == 10
