"""Which metrics are compared, and with what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from planted_scorers import quality_of

from palate.metrics import Clusters, agreement_difference, holm
from palate.reports.validity import tables as validity_tables
from palate.runs import Run
from palate.uses import Downstream
from palate.validity import METRICS, validity
from palate.validity.coefficients import COMPARED, compared, differences_of
from palate.validity.metric_values import MatchedMetric, MetricColumn, UnitValues, match

NAMES = [(f"s{k}", "none") for k in range(8)]
ROWS = Clusters.of(range(10))


def downstream(seed: int = 0) -> Downstream:
    stream = np.random.default_rng(seed)
    values = {name: stream.random(10) for name in NAMES}
    users = np.arange(10).astype(str)
    return quality_of(values, "below", users=users, questions=users)


def metric_of(benchmark: str, metric: str, names: list = NAMES, seed: int = 1) -> MatchedMetric:
    stream = np.random.default_rng([seed, METRICS.index(metric)])
    units = {name: UnitValues(stream.random(10), ROWS) for name in names}
    matched = match(MetricColumn(benchmark, metric, units, {}), downstream())
    assert matched is not None
    return matched


def sides(matches: list[MatchedMetric]) -> list[tuple[str, ...]]:
    return [
        (first.benchmark, first.metric, second.benchmark, second.metric)
        for first, second in compared(matches)
    ]


def test_six_comparisons_are_named_and_no_more() -> None:
    assert len(COMPARED) == len({frozenset(pair) for pair in COMPARED}) == 6
    assert {name for pair in COMPARED for name in pair} == set(METRICS)
    everything = [metric_of(name, metric) for name in ("one", "two") for metric in METRICS]
    assert len(compared(everything)) == 6
    assert all(side[0] == side[2] == "one" for side in sides(everything))


def test_metrics_of_one_benchmark_come_first() -> None:
    # Accuracy is of whole sets, mirrored accuracy of couples: two benchmarks. Gains are of both.
    whole = [metric_of("whole", metric) for metric in ("accuracy", "gain")]
    couples = [metric_of("couples", metric) for metric in METRICS[1:]]
    assert sides([*whole, *couples]) == [
        ("whole", "accuracy", "couples", "mirrored accuracy"),
        ("whole", "accuracy", "whole", "gain"),
        ("couples", "mirrored accuracy", "couples", "concordance"),
        ("couples", "mirrored accuracy", "couples", "identity gain"),
        ("couples", "concordance", "couples", "identity gain"),
        ("couples", "gain", "couples", "identity gain"),
    ]
    assert sides(whole) == [("whole", "accuracy", "whole", "gain")]
    assert sides(couples[:1]) == []


def test_three_common_scorers_are_needed() -> None:
    few = metric_of("b", "gain", NAMES[:4])
    assert sides([metric_of("b", "accuracy", NAMES[2:]), few]) == []
    assert len(sides([metric_of("b", "accuracy", NAMES[1:]), few])) == 1


def test_differences_are_those_of_the_common_scorers_and_holm_is_over_all_of_them() -> None:
    first, second = metric_of("b", "accuracy"), metric_of("b", "gain", NAMES[3:])
    third = metric_of("b", "identity gain")
    found = differences_of(compared([first, second, third]), seed=3)
    assert [(each.first, each.second, each.n) for each in found] == [
        (("b", "accuracy"), ("b", "gain"), 5),
        (("b", "gain"), ("b", "identity gain"), 5),
    ]
    common = NAMES[3:]
    x, y = first.table.figures, second.table.figures
    quality = {name: own.mean() for name, own in downstream().values.items()}
    columns = [[side[name] for name in common] for side in (x, y, quality)]
    expected = agreement_difference(*columns, seed=3)
    assert found[0].tau.p == expected.p
    assert found[0].tau.value == pytest.approx(expected.value)
    assert [each.p_holm for each in found] == holm([each.tau.p for each in found])


def test_the_first_measure_of_quality_alone(planted):
    runs, best = planted(5, n_rows=40)
    # A second benchmark where the worst scorer is the best: its rows are no couples, so it is
    # accuracy again, and accuracy is not compared with itself.
    other = [
        Run(run.summary.model_copy(update={"benchmark": "elsewhere"}), turned.verdicts)
        for run, turned in zip(runs, runs[::-1], strict=True)
    ]
    found = validity([*runs, *other, best], metrics=["accuracy"], root=None)
    assert found.summary.differences == ()
    selections = tuple(one.model_copy(update={"quality": "another"}) for one in best.summary.cells)
    columns = tuple(it.model_copy(update={"measure": "another"}) for it in best.summary.columns)
    update = {"cells": selections, "columns": columns, "unrated": {"another": {}}}
    second = replace(best, summary=best.summary.model_copy(update=update))
    told: list[tuple[int, int]] = []
    found = validity([*runs, *other, best, second], metrics=["accuracy"],
                     progress=lambda done, total: told.append((done, total)),
                     root=None)  # fmt: skip
    assert told == [(k, 4) for k in range(1, 5)]
    assert len(validity_tables(found)) == 2
    assert '"kind": "validity"' in found.to_json()


def test_differences_stand_below_the_measure_they_are_of() -> None:
    from palate.reports.validity import difference_table

    first, second = metric_of("b", "accuracy"), metric_of("b", "gain")
    (difference,) = differences_of(compared([first, second]))
    table = difference_table("q", [difference])
    tau = difference.tau
    assert table.rows[0][:3] == ["accuracy on b", "gain on b", "8"]
    assert table.rows[0][3] == f"{tau.first:.3f}".replace("-", "−")
    assert table.rows[0][5] == f"{tau.value:+.3f}".replace("-", "−")
    assert table.rows[0][6] == f"{tau.p:.3f} / {difference.p_holm:.3f}"
    assert pytest.approx(tau.first - tau.second) == tau.value
