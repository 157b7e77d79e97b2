import math
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from planted_trials import coverage, false_alarms, mean_error, point

from palate.runs import Gain, ReportedEstimate


def figure(
    value: float | None, low: float | None = None, high: float | None = None
) -> ReportedEstimate:
    return ReportedEstimate(value=value, low=low, high=high, n=10)


def idle(p: float | None) -> Gain:
    return Gain(benchmark="b", scorer="s", context="c", kind="gain", against="none", p=p)


def test_point_is_exact() -> None:
    half = figure(0.5, 0.5, 0.5)
    assert point("", [half, half]).ok
    for broken in (
        figure(0.5, 0.5 - 1e-15, 0.5),
        figure(0.5, None, None),
        figure(0.5 + 1e-9, 0.5, 0.5),
    ):
        assert not point("", [half, broken]).ok
    assert not point("", []).ok


def test_mean_error_by_hand() -> None:
    found = mean_error("", [figure(0.7), figure(0.8), figure(0.9)], 0.75, "all")
    assert found.value == pytest.approx(0.05)
    assert found.high == -found.low == pytest.approx(3 * 0.1 / math.sqrt(3))
    assert found.ok
    assert not mean_error("", [figure(0.79), figure(0.8), figure(0.81)], 0.75, "all").ok
    assert not mean_error("", [figure(None)], 0.75, "all").ok


def test_coverage_counts_a_missing_interval_as_a_miss() -> None:
    held, missed, none = figure(0.5, 0.4, 0.6), figure(0.8, 0.7, 0.9), figure(0.5)
    found = coverage("", [held, held, missed, none], 0.5, "all")
    assert (found.value, found.worlds) == (0.5, 4)


@pytest.mark.parametrize(("held", "ok"), [(459, False), (460, True), (490, True), (491, False)])
def test_coverage_bar_at_500_worlds(held: int, ok: bool) -> None:
    found = [figure(0.5, 0.4, 0.6)] * held + [figure(0.8, 0.7, 0.9)] * (500 - held)
    assert coverage("", found, 0.5, "all").ok is ok


def test_bar_is_wider_for_fewer_worlds() -> None:
    few = coverage("", [figure(0.5, 0.4, 0.6)] * 50, 0.5, "all")
    assert (few.low, few.high) == (pytest.approx(0.95 - 3 * math.sqrt(0.0475 / 50)), 1.0)


@pytest.mark.parametrize(("alarms", "ok"), [(9, False), (10, True), (40, True), (41, False)])
def test_false_alarms_bar_at_500_worlds(alarms: int, ok: bool) -> None:
    found = [idle(0.01)] * alarms + [idle(0.6)] * (499 - alarms) + [idle(None)]
    assert false_alarms("", found, "all").ok is ok
