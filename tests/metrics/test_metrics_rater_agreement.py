"""Percent agreement and Krippendorff's α, against the literature, nltk and brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.metrics.agreement import AnnotationTask
from nltk.metrics.distance import binary_distance, interval_distance

from palate.metrics import Clusters, rater_agreement

NAN = float("nan")
KRIPPENDORFF = np.array([
    [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
    [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
])  # fmt: skip
"""Observers × units, with gaps."""
TABLES = st.integers(2, 5).flatmap(
    lambda raters: st.lists(
        st.lists(st.sampled_from([NAN, 1.0, 2.0, 3.0, 5.0]), min_size=raters, max_size=raters),
        min_size=2,
        max_size=8,
    )
)
"""Units × raters."""


def figure(table: np.ndarray, measure: str, **options: bool) -> float | None:
    """Of a table of raters × units."""
    raters, units = (codes.ravel() for codes in np.indices(table.shape))
    rows = Clusters.of(raters, questions=units)
    return rater_agreement(table.ravel(), units, rows, measure=measure, **options).value


def pairs_of_units(table: np.ndarray) -> list[list[tuple[float, float]]]:
    """The ordered pairs of values of each unit that has two."""
    units = [column[~np.isnan(column)].tolist() for column in table.T]
    return [
        [(a, b) for k, a in enumerate(unit) for m, b in enumerate(unit) if k != m]
        for unit in units
        if len(unit) > 1
    ]


def alpha_by_pairs(table: np.ndarray, measure: str) -> float | None:
    """Sum over pairs of values, without any counts."""
    units = [column[~np.isnan(column)] for column in table.T]
    values = [unit.tolist() for unit in units if unit.size > 1]
    every = [value for unit in values for value in unit]

    def apart(a: float, b: float) -> float:
        if measure == "nominal":
            return float(a != b)
        if measure == "interval":
            return (a - b) ** 2
        low, high = min(a, b), max(a, b)
        between = sum(low <= value <= high for value in every)
        ends = sum(value in {low, high} for value in every) / (1 if low == high else 2)
        return 0.0 if a == b else float(between - ends) ** 2

    seen = sum(
        apart(a, b) / (len(unit) - 1)
        for unit in values
        for k, a in enumerate(unit)
        for m, b in enumerate(unit)
        if k != m
    )
    chance = sum(apart(a, b) for a in every for b in every) / max(len(every) - 1, 1)
    return None if chance == 0 else 1 - seen / chance


@pytest.mark.parametrize(
    ("measure", "value"),
    [("nominal", 0.7434), ("ordinal", 0.8154), ("interval", 0.8491), ("percent", 0.81818)],
)
def test_krippendorffs_table(measure: str, value: float) -> None:
    assert figure(KRIPPENDORFF, measure) == pytest.approx(value, abs=0.00005)


def test_gwets_table() -> None:
    cells = [(0, 0, 13), (1, 1, 20), (1, 2, 7), (2, 1, 4), (2, 2, 56)]
    table = np.array([pair for a, b, n in cells for pair in [(a, b)] * n], dtype=float).T
    assert figure(table, "nominal") == pytest.approx(0.79726, abs=0.000005)


@settings(deadline=None)
@given(TABLES, st.sampled_from(["nominal", "interval"]))
def test_alpha_is_nltks_with_gaps(units: list[list[float]], measure: str) -> None:
    table = np.array(units).T
    known = [
        (f"r{r}", f"u{u}", float(table[r, u]))
        for u in range(table.shape[1])
        if (~np.isnan(table[:, u])).sum() > 1
        for r in np.flatnonzero(~np.isnan(table[:, u]))
    ]
    value = figure(table, measure)
    if len({label for *_, label in known}) < 2:
        assert value is None
        return
    distance = binary_distance if measure == "nominal" else interval_distance
    assert value == pytest.approx(AnnotationTask(known, distance=distance).alpha(), abs=1e-12)


@settings(deadline=None)
@given(TABLES, st.sampled_from(["nominal", "ordinal", "interval"]))
def test_alpha_is_that_of_all_pairs(units: list[list[float]], measure: str) -> None:
    table = np.array(units).T
    assert figure(table, measure) == pytest.approx(alpha_by_pairs(table, measure), abs=1e-12)


@given(TABLES)
def test_percent_is_the_mean_of_units(units: list[list[float]]) -> None:
    shares = [np.mean([a == b for a, b in pairs]) for pairs in pairs_of_units(np.array(units).T)]
    expected = pytest.approx(np.mean(shares)) if shares else None
    assert figure(np.array(units).T, "percent") == expected


@settings(deadline=None)
@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=3, max_size=3), min_size=2))
def test_both_orders_are_every_unit_twice_and_blind_to_sides(choices: list[list[float]]) -> None:
    table = np.array(choices).T
    value = figure(table, "nominal", both_orders=True)
    twice = figure(np.hstack([table, -table]), "nominal")
    assert value == pytest.approx(twice, abs=1e-12)
    turned = table * np.where(np.arange(table.shape[1]) % 2, -1, 1)
    assert value == pytest.approx(figure(turned, "nominal", both_orders=True), abs=1e-12)


def test_in_both_orders_alpha_without_ties_is_twice_the_agreement_less_one() -> None:
    # And not so where the chance knows which side is gold: raters who agree on nothing but that.
    stream = np.random.default_rng(1)
    table = np.where(stream.random((3, 4_000)) < 0.9, 1.0, -1.0)
    agreed = figure(table, "percent")
    assert agreed is not None
    value = figure(table, "nominal", both_orders=True)
    assert value == pytest.approx(2 * agreed - 1, abs=0.001)
    assert figure(table, "nominal") == pytest.approx(0, abs=0.03)


def left_out(table: np.ndarray, measure: str) -> tuple[float, float]:
    """Standard error and degrees of freedom, each rater, unit and cell taken out by hand."""
    value = figure(table, measure)
    n, units = table.shape

    def squares(masks: list[np.ndarray]) -> float:
        moved = [figure(np.where(mask, NAN, table), measure) for mask in masks]
        return (len(masks) - 1) / len(masks) * sum((m - value) ** 2 for m in moved)

    r, u = np.indices(table.shape)
    raters = squares([r == k for k in range(n)])
    items = squares([u == k for k in range(units)])
    cells = squares([(r == j) & (u == k) for j in range(n) for k in range(units)])
    return max(raters, raters + items - cells) ** 0.5, min(n, units) - 1


@pytest.mark.parametrize("measure", ["percent", "nominal", "ordinal", "interval"])
def test_the_interval_leaves_out_raters_units_and_cells(measure: str) -> None:
    table = np.random.default_rng(4).integers(1, 4, (5, 12)).astype(float)
    table[:3] = table[0]
    table[1, :4] += 1
    raters, units = (codes.ravel() for codes in np.indices(table.shape))
    rows = Clusters.of(raters, questions=units)
    e = rater_agreement(table.ravel(), units, rows, measure=measure)
    assert (e.se, e.df) == pytest.approx(left_out(table, measure))
    assert (e.n, e.n_units) == (12, 5)


def test_where_there_is_no_figure_a_note_says_why() -> None:
    rows = Clusters.of(list("aabb"), questions=list("xyxz"))
    alone = rater_agreement([1, 2, NAN, 2], list("xyxz"), rows)
    assert (alone.value, alone.n, alone.note) == (None, 0, "no item has values of two raters")
    alike = rater_agreement([1, 1, 1, 1], list("xyxy"), list("aabb"))
    assert (alike.value, alike.n) == (None, 2)
    assert alike.note == "all values are alike: chance is not defined"
    assert rater_agreement([1, 1, 1, 1], list("xyxy"), list("aabb"), measure="percent").value == 1
    assert rater_agreement([], [], []).value is None


def test_full_agreement_has_the_interval_of_a_figure_at_its_bound() -> None:
    table = np.tile([1.0, 2.0, 3.0, 1.0], (6, 1))
    raters, units = (codes.ravel() for codes in np.indices(table.shape))
    e = rater_agreement(table.ravel(), units, Clusters.of(raters, questions=units))
    # Four units, the fewer: 2 × 0.025^(1/4) - 1.
    assert (e.value, e.high) == (1, 1)
    assert e.low == pytest.approx(2 * 0.025**0.25 - 1)


def test_the_order_of_rows_and_the_names_change_nothing() -> None:
    stream = np.random.default_rng(7)
    values, units = stream.integers(1, 4, 40).astype(float), np.repeat(np.arange(10), 4)
    raters = np.concatenate([stream.permutation(6)[:4] for _ in range(10)])
    first = rater_agreement(values, units, Clusters.of(raters, questions=units), measure="ordinal")
    order = stream.permutation(40)
    named = Clusters.of(
        [f"r{9 - k}" for k in raters[order]], questions=[f"u{k * 7 % 10}" for k in units[order]]
    )
    second = rater_agreement(
        values[order], [f"u{k * 7 % 10}" for k in units[order]], named, measure="ordinal"
    )
    assert (first.value, first.se, first.df) == pytest.approx((second.value, second.se, second.df))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="columns differ"):
        rater_agreement([1, 2], ["x", "x"], ["a"])
    with pytest.raises(ValueError, match="columns differ"):
        rater_agreement([1, 2], ["x"], ["a", "b"])
    with pytest.raises(ValueError, match="finite"):
        rater_agreement([1, float("inf")], ["x", "x"], ["a", "b"])
    with pytest.raises(ValueError, match="not of couples"):
        rater_agreement([1, 2], ["x", "x"], Clusters.of(["a", "b"], ["b", "c"]))


def test_raters_of_one_unit_count_once_each() -> None:
    # Three of four agree: 3 of 6 pairs.
    assert figure(np.array([[1.0], [1.0], [1.0], [2.0]]), "percent") == 0.5
