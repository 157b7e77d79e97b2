import numpy as np
import pytest
from scipy import stats

from palate.metrics import couple_mean, user_mean
from palate.metrics.two_way import moves_of_mean, owner_variance, two_way_mean, two_way_variance


def by_leaving_out(x: np.ndarray, labels: np.ndarray) -> float:
    names = np.unique(labels, axis=0)
    out = [np.atleast_2d((labels == name).T).all(axis=0) for name in names]
    moved = np.array([x[~rows].mean() for rows in out]) - x.mean()
    return (len(names) - 1) / len(names) * float((moved**2).sum())


def crossed(seed: int, users: int, items: int, rows: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    u, i = rng.integers(0, users, rows), rng.integers(0, items, rows)
    level = rng.normal(size=items)
    return 1 / (1 + np.exp(-(level[i] + rng.normal(size=rows)))), u, i


def test_variance_by_leaving_out_users_items_and_cells() -> None:
    x, u, i = crossed(0, 10, 6, 80)
    found = two_way_mean(x, u, i)
    by_user = by_leaving_out(x, u)
    expected = by_user + by_leaving_out(x, i) - by_leaving_out(x, np.stack([u, i], axis=1))
    assert expected > by_user
    assert found.value == pytest.approx(float(x.mean()))
    assert found.se == pytest.approx(np.sqrt(expected))
    counts = np.bincount(i)
    df = counts.sum() ** 2 / (counts**2).sum() - 1  # the items are fewer
    assert found.df == pytest.approx(df)
    half = stats.t(df).ppf(0.975) * np.sqrt(expected)
    assert found.low == pytest.approx(x.mean() - half)
    assert (found.n, found.n_units) == (80, len(set(u)))


def test_without_shared_items_it_is_the_users_own() -> None:
    x, u, _ = crossed(1, 8, 5, 40)
    alone = user_mean(x, u)
    assert two_way_mean(x, u) == alone
    assert two_way_mean(x, u, np.arange(40)) == alone
    assert two_way_mean(x, u, [f"{a}'s {k % 2}" for k, a in enumerate(u)]) == alone


def test_never_less_than_by_user() -> None:
    # Two users of an item want opposite things: items cancel what users differ in.
    x = np.tile([0.9, 0.1], 12)
    u, i = np.tile(np.arange(8), 3), np.repeat(np.arange(12), 2)
    assert by_leaving_out(x, i) == pytest.approx(0)
    assert two_way_mean(x, u, i).se == pytest.approx(user_mean(x, u).se)


def test_one_item_for_all_says_nothing_of_other_items() -> None:
    found = two_way_mean([0.1, 0.4, 0.2, 0.7], list("abcd"), ["q"] * 4)
    assert (found.value, found.low, found.p) == (pytest.approx(0.35), None, None)


def test_rows_without_a_value_are_left_out_of_both() -> None:
    x, u, i = crossed(2, 10, 6, 60)
    holed = x.copy()
    holed[::7] = np.nan
    there = ~np.isnan(holed)
    assert two_way_mean(holed, u, i) == two_way_mean(x[there], u[there], i[there])
    with pytest.raises(ValueError, match="users 59"):
        two_way_mean(x, u, i[1:])


def test_a_variance_that_is_missing_is_not_made_up() -> None:
    users, items = np.array([0, 1, 2]), np.array([0, 0, 0])
    assert two_way_mean([0.1, 0.4, 0.2], users, items).se is None

    def moves(owners):
        return None if owners[0].max() == 0 else np.ones(3)

    assert two_way_variance(moves, (users,), items, np.ones(3)) is None


def dyadic_by_hand(x: np.ndarray, a: list, b: list, *, floor: bool = True) -> float:
    """Leave out each user's couples, then each pair's."""
    sides = [{one, other} for one, other in zip(a, b, strict=True)]
    mean = x.mean()

    def squares(left_out: list, *, share: bool = False) -> float:
        kept = [np.array([not gone(side) for side in sides]) for gone in left_out]
        return float(sum(
            ((x[k].mean() - mean) * (k.mean() if share else 1)) ** 2 for k in kept
        ))  # fmt: skip

    everyone, pairs = sorted(set(a) | set(b)), {frozenset(side) for side in sides}
    by_user = squares([lambda side, u=u: u in side for u in everyone])
    by_pair = squares([lambda side, p=p: side == p for p in pairs])
    if not floor:
        return by_user - by_pair
    return max(by_user - by_pair, squares([lambda side, p=p: side == p for p in pairs], share=True))


def couples(seed: int, users: int, items: int, rows: int) -> tuple:
    rng = np.random.default_rng(seed)
    both = np.array([rng.choice(users, 2, replace=False) for _ in range(rows)])
    i = rng.integers(0, items, rows)
    taste, hard = rng.normal(0, 0.5, users), rng.normal(0, 2, items)
    x = taste[both].sum(axis=1) + hard[i] + rng.normal(size=rows)
    return 1 / (1 + np.exp(-x / 2)), both[:, 0].tolist(), both[:, 1].tolist(), i.tolist()


def test_variance_of_couples_by_leaving_out_users_pairs_and_items() -> None:
    x, a, b, i = couples(3, 8, 6, 60)
    found = two_way_mean(x, a, i, mirrored=b)
    by_user = dyadic_by_hand(x, a, b)
    within = [
        list(zip(side, i, strict=True)) for side in (a, b)
    ]  # a user of one item is not the same user of another
    cells = dyadic_by_hand(x, *within, floor=False)
    expected = by_user + by_leaving_out(x, np.array(i)) - cells
    assert expected > by_user
    assert found.se == pytest.approx(np.sqrt(expected))
    assert found.n_units == len(set(a) | set(b))
    counts = np.bincount(i)
    assert found.df == pytest.approx(counts.sum() ** 2 / (counts**2).sum() - 1)


def test_a_mean_of_couples_has_couple_means_variance_whatever_its_sums() -> None:
    # A ring: what users gain with one they lose with the other, so their sums cancel.
    x, a, b = np.array([0.9, 0.1, 0.9, 0.1]), list("abcd"), list("bcda")
    codes = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 0])
    found = owner_variance(moves_of_mean(x), codes, np.ones(4))
    assert np.sqrt(found) == pytest.approx(couple_mean(x, a, b).se) == pytest.approx(0.2)
    assert np.sqrt(found) == pytest.approx(np.sqrt(dyadic_by_hand(x, a, b)))


def test_couples_without_shared_items_are_as_in_mirrored_accuracy() -> None:
    x, a, b, _ = couples(4, 8, 6, 40)
    alone = couple_mean(x, a, b)
    assert two_way_mean(x, a, mirrored=b) == alone
    assert two_way_mean(x, a, np.arange(40), mirrored=b) == alone
    of_the_pair = [f"{sorted(pair)}" for pair in zip(a, b, strict=True)]
    assert two_way_mean(x, a, of_the_pair, mirrored=b) == alone
    with pytest.raises(ValueError, match="two different users"):
        two_way_mean(x, a, mirrored=a)
