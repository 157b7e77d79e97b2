import math
from functools import cache

import numpy as np
import pytest

from palate.errors import UsageError
from palate.metrics.ranks import Range, Replicates, rank_agreement, statistics
from palate.metrics.ranks.over_items import deviations, noise, range_over_items, true_figures
from palate.metrics.ranks.over_scorers import Population, range_over_scorers
from palate.metrics.selection import best_of

ALL = {s.name: s for s in statistics()}
KENDALL = ALL["kendall"]


def covers(found: Range, truth: float) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low - 1e-9 <= truth <= found.high + 1e-9


def without_each(rows: np.ndarray) -> np.ndarray:
    return (rows.sum(axis=0) - rows) / (len(rows) - 1)


def test_simulated_scorers_have_the_tau_of_their_population() -> None:
    figures = np.arange(12.0)
    population = Population(figures, figures, seed=0, draws=4_000)
    for r in (-0.5, 0.0, 0.8):
        mean = KENDALL(*population.draws(r)).mean()
        assert mean == pytest.approx(2 / math.pi * math.asin(r), abs=0.01)
    x, y = population.draws(1.0)
    assert x.tolist() == [y.tolist()] * 4_000


def test_simulated_scorers_keep_ties_and_figures() -> None:
    x, y = Population(np.array([2.0, 1, 1, 5]), np.array([0.1, 0.1, 0.3, 0.2]), seed=0).draws(0.3)
    assert np.sort(x, axis=1).tolist() == [[1, 1, 2, 5]] * len(x)
    assert y.tolist() == [0.1, 0.1, 0.2, 0.3]


@pytest.mark.parametrize("name", list(ALL))
def test_over_scorers_contains_the_value(name: str) -> None:
    rng = np.random.default_rng(1)
    for n in (3, 6, 15):
        for spread in (0.05, 0.25, 1.0):
            x = np.arange(float(n))
            y = x + rng.normal(0, n * spread, n)
            found = range_over_scorers(ALL[name], x, y)
            assert covers(found, float(ALL[name](x, y)[0]))
            assert ALL[name].lowest <= (found.low or 0) <= (found.high or 0) <= 1


def test_a_perfect_ranking_of_six_says_little() -> None:
    six = np.arange(6.0)
    up, down = range_over_scorers(KENDALL, six, six), range_over_scorers(KENDALL, six, -six)
    assert up.high == 1
    assert 0.35 < (up.low or 0) < 0.5
    assert down.low == -1
    assert (down.high or 0) == pytest.approx(-(up.low or 0), abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("n", [6, 20])
@pytest.mark.parametrize("r", [0.0, 0.6, 0.9])
def test_over_scorers_covers_the_population(n: int, r: float) -> None:
    rng = np.random.default_rng(2)

    @cache
    def interval(order: tuple[int, ...]) -> Range:
        return range_over_scorers(KENDALL, np.arange(float(n)), np.array(order, dtype=float))

    by_value: dict[float, Range] = {}
    hits, worlds = 0, 400
    for _ in range(worlds):
        z = rng.normal(size=n)
        x = z.argsort().argsort()
        y = np.exp(r * z + math.sqrt(1 - r * r) * rng.normal(size=n))
        # Without ties the interval is a function of τ and n.
        tau = round(float(KENDALL(x.astype(float), y)[0]), 9)
        if tau not in by_value:
            by_value[tau] = interval(tuple(y[x.argsort()].argsort().argsort().tolist()))
        hits += covers(by_value[tau], 2 / math.pi * math.asin(r))
    assert hits / worlds >= 0.93


def test_noise_is_the_jackknifes() -> None:
    rng = np.random.default_rng(0)
    x_rows = rng.normal(size=(25, 4)) + rng.normal(size=(25, 1)) * 9
    y_rows = 0.5 * x_rows + rng.normal(size=(25, 4))
    x, y = x_rows.mean(axis=0), y_rows.mean(axis=0)
    both = Replicates(without_each(x_rows), without_each(y_rows), same_users=True)
    var_x, var_y, cov = noise(x, y, both)
    # Of means, the jackknife is the classical variance; what all scorers share is gone.
    own = x_rows - x_rows.mean(axis=1, keepdims=True)
    other = y_rows - y_rows.mean(axis=1, keepdims=True)
    for i in range(4):
        expected = np.cov(own[:, i], other[:, i]) / 25
        assert (var_x[i], var_y[i], cov[i]) == pytest.approx(
            (expected[0, 0], expected[1, 1], expected[0, 1])
        )
    apart = noise(x, y, Replicates(without_each(x_rows), without_each(y_rows[:10])))
    assert apart[2].tolist() == [0] * 4


def test_no_noise_no_doubt() -> None:
    x, y = np.array([1.0, 2, 3, 4, 5]), np.array([1.0, 3, 2, 5, 4])
    quiet = Replicates(np.tile(x, (10, 1)), None)
    for statistic in ALL.values():
        found = range_over_items(statistic, x, y, quiet)
        value = float(statistic(x, y)[0])
        assert (found.low, found.high) == pytest.approx((value, value), abs=1e-6)


def test_over_items_is_given_beside_the_rest() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(np.arange(6.0), 2.0, (50, 6))
    found = rank_agreement(
        rows.mean(axis=0), np.arange(6.0), replicates=Replicates(without_each(rows), None)
    )
    for a in found:
        assert a.over_items.low is not None
        assert a.over_items.high is not None
        assert a.over_items.low <= a.over_items.high <= 1
    flat = rank_agreement([1.0] * 6, range(6), replicates=Replicates(without_each(rows), None))
    assert {a.over_items.low for a in flat} == {None}


def test_bad_replicates() -> None:
    x = np.arange(4.0)
    good = np.tile(x, (10, 1))
    for bad in (np.zeros((10, 3)), np.zeros((1, 4)), np.zeros(4)):
        with pytest.raises(UsageError, match="downstream replicates have shape"):
            noise(x, x, Replicates(good, bad))
    with pytest.raises(UsageError, match="not finite"):
        deviations(x, np.full((5, 4), math.nan), "benchmark")
    with pytest.raises(UsageError, match="10 benchmark and 5 downstream"):
        noise(x, x, Replicates(good, good[:5], same_users=True))


def planted(
    rng: np.random.Generator, seen: np.ndarray, used: np.ndarray, users: int, rows: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean accuracy and best-of-4 value of each scorer by user, each of shape (users, scorers).

    A scorer's number is its skill times the gold value and noise; the benchmark asks for ``seen``
    skills, the downstream use for ``used`` ones.
    """
    m = seen.size
    pair = rng.normal(size=(users, rows, 2))
    noisy = rng.normal(size=(m, users, rows, 2))
    said = seen[:, None, None, None] * pair + np.sqrt(1 - seen**2)[:, None, None, None] * noisy
    right = np.sign(np.diff(said, axis=-1)) == np.sign(np.diff(pair, axis=-1))
    gold = rng.normal(size=(users * rows, 8))
    value = []
    for skill in used:
        scores = skill * gold + math.sqrt(1 - skill**2) * rng.normal(size=gold.shape)
        value.append(best_of(scores, gold, [4])[:, 0].reshape(users, rows).mean(axis=1))
    return right[..., 0].mean(axis=2).T, np.array(value).T


@pytest.mark.slow
@pytest.mark.parametrize("foretells", [True, False])
def test_planted_order_is_recovered_and_covered(foretells: bool) -> None:
    # 20 scorers of known skill; accuracy and best-of-4 both rise with it. Where the benchmark asks
    # for something else, the skills that it sees stand in another order.
    rng = np.random.default_rng(11)
    skill = np.linspace(0.05, 0.95, 20)
    seen = skill if foretells else skill[np.argsort(skill + rng.normal(0, 0.3, 20))]
    truth = float(KENDALL(seen, skill)[0])
    assert foretells == (truth == 1)
    orders, hits, worlds = [], 0, 200
    for _ in range(worlds):
        accuracy, value = planted(rng, seen, skill, users=60, rows=20)
        x, y = accuracy.mean(axis=0), value.mean(axis=0)
        orders.append([float(KENDALL(x, seen)[0]), float(KENDALL(y, skill)[0])])
        replicates = Replicates(without_each(accuracy), without_each(value))
        hits += covers(range_over_items(KENDALL, x, y, replicates), truth)
    assert bool(np.all(np.mean(orders, axis=0) >= 0.9)), np.mean(orders, axis=0)
    assert hits / worlds >= 0.93, hits / worlds


@pytest.mark.parametrize("foretells", [True, False])
def test_over_items_covers_where_half_of_the_scorers_are_blind(foretells: bool) -> None:
    # As on mirrored couples: no user moves the blind, who are tied; users move both figures of the
    # others alike.
    rng = np.random.default_rng(8)
    n, blind, users = 16, 8, 24
    skill = np.where(np.arange(n) < blind, 0.0, np.linspace(-0.2, 0.6, n))
    seen = skill.copy()
    if not foretells:
        seen[blind:] = rng.permutation(seen[blind:])
    truth, reads = float(KENDALL(seen, skill)[0]), np.arange(n) >= blind
    hits = []
    for _ in range(80):
        both = rng.normal(0, 0.5, (users, n)) * reads
        x, y = (s + both + rng.normal(0, 0.5, (users, n)) * reads for s in (seen, skill))
        found = range_over_items(
            KENDALL, x.mean(axis=0), y.mean(axis=0),
            Replicates(without_each(x), without_each(y), same_users=True),
        )  # fmt: skip
        hits.append(covers(found, truth))
    assert np.mean(hits) >= 0.93, np.mean(hits)


def test_who_is_moved_by_no_user_keeps_the_figures_they_have() -> None:
    rng = np.random.default_rng(9)
    rows = rng.normal(np.arange(8.0), 1.0, (20, 8))
    rows[:, :4] = [2.0, 2.0, 5.0, 1.0]
    x, without = rows.mean(axis=0), without_each(rows)
    assert deviations(x, without, "benchmark")[:, :4] == pytest.approx(0)
    a, b = true_figures(x, x, noise(x, x, Replicates(without, without)), seed=0, draws=50)
    assert (a[:, :4] == x[:4]).all()
    assert (b[:, :4] == x[:4]).all()
    assert np.ptp(a[:, 4:], axis=0).min() > 0.1
