import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr

from palate.metrics import LosingShare, losing_share

NAN = math.nan
ROWS = st.lists(
    st.tuples(st.sampled_from([-1.0, -0.5, 0.0, 0.5, 1.0]), st.integers(0, 8)),
    min_size=1,
    max_size=60,
)


def simulated(
    rng: np.random.Generator, mean: float, spread: float, users: int, rows: int
) -> LosingShare:
    """Users whose chance of being right rises by a normal amount; rows are 0 or 1 under both."""
    true = rng.normal(mean, spread, users)
    who = np.repeat(np.arange(users), rows)
    before = rng.random(who.size) < 0.5
    after = rng.random(who.size) < np.clip(0.5 + true, 0, 1)[who]
    return losing_share(after.astype(float) - before, who, seed=1)


def test_hand_worked() -> None:
    # Means 1, 1/2, -1/2, 1/2: μ = 3/8, variance 1.1875/3. Noise 0, 1/4, 1/4, 1/4: mean 3/16.
    found = losing_share([1, 1, 0, 1, -1, 0, 0, 1], list("aabbccdd"))
    tau = math.sqrt(1.1875 / 3 - 3 / 16)
    assert found.raw == 0.25
    assert found.mean == 0.375
    assert found.spread == pytest.approx(tau)
    assert found.share == pytest.approx(ndtr(-0.375 / tau))
    assert (found.n, found.n_users, found.n_modelled) == (8, 4, 4)


def test_users_with_one_row_are_in_the_raw_share_only() -> None:
    found = losing_share([1, 1, 0, 1, -1, 0, 0, 1, -1, -1], list("aabbccddxy"))
    assert found.raw == 0.5
    assert found.share == losing_share([1, 1, 0, 1, -1, 0, 0, 1], list("aabbccdd")).share
    assert (found.n_users, found.n_modelled) == (6, 4)
    alone = losing_share([1, -1, 0, NAN], list("abcd"))
    assert alone.raw == pytest.approx(1 / 3)
    assert alone.share is alone.low is alone.high is None


def test_nobody_and_everybody() -> None:
    none = losing_share([0.0] * 12, list("aabbccddeeff"))
    assert (none.raw, none.share, none.low, none.high) == (0, 0, 0, 0)
    all_lose = losing_share([-0.5] * 12, list("aabbccddeeff"))
    assert (all_lose.raw, all_lose.share, all_lose.low) == (1, 1, 1)
    assert losing_share([], []).raw is None


def test_where_all_gain_alike_those_who_lose_by_chance_are_not_counted() -> None:
    rng = np.random.default_rng(2)
    found = [simulated(rng, 0.1, 0.0, users=200, rows=6) for _ in range(40)]
    raw = np.mean([one.raw for one in found])
    share = np.mean([one.share for one in found])
    assert raw > 0.25, "luck alone"
    assert share < 0.12
    assert np.median([one.share for one in found]) < 0.03


@pytest.mark.parametrize(("mean", "spread"), [(0.1, 0.15), (0.0, 0.1), (0.05, 0.1), (-0.1, 0.15)])
def test_the_share_of_a_simulation_is_recovered(mean: float, spread: float) -> None:
    rng, truth = np.random.default_rng(3), float(ndtr(-mean / spread))
    found = [simulated(rng, mean, spread, users=200, rows=16) for _ in range(60)]
    shares = np.array([one.share for one in found], dtype=float)
    assert abs(shares.mean() - truth) < 0.04
    if mean:
        raw = np.array([one.raw for one in found], dtype=float)
        assert abs(raw.mean() - truth) > 2 * abs(shares.mean() - truth)
    covered = np.mean([one.low <= truth <= one.high for one in found])  # type: ignore[operator]
    assert covered >= 0.86


@given(ROWS)
def test_laws(rows: list[tuple[float, int]]) -> None:
    d, users = [r[0] for r in rows], [r[1] for r in rows]
    one = losing_share(d, users, draws=20)
    assert one.raw is not None
    assert 0 <= one.raw <= 1
    turned = losing_share([NAN, *d[::-1]], ["new", *(f"u{u}" for u in users[::-1])], draws=20)
    assert turned.raw == one.raw
    assert turned.share == pytest.approx(one.share, abs=1e-9)
    assert turned.low == pytest.approx(one.low, abs=1e-9)
    if one.share is not None:
        assert one.low <= one.share <= one.high  # type: ignore[operator]
        mirrored = losing_share([-x for x in d], users, draws=20)
        if one.spread:
            assert mirrored.share == pytest.approx(1 - one.share)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        losing_share([math.inf], ["a"])
    with pytest.raises(ValueError, match="draws"):
        losing_share([1], ["a"], draws=0)
