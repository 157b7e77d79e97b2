import math

import numpy as np
import pytest

from palate.errors import UsageError
from palate.metrics.selection import kl_bound
from palate.metrics.selection.overoptimisation import k_of


def test_published_values() -> None:
    assert [round(kl_bound(k), 3) for k in (1, 2, 4, 16, 128)] == [0, 0.193, 0.636, 1.835, 3.86]


@pytest.mark.parametrize("k", [1, 2, 5, 12])
def test_the_bound_is_met_without_ties_and_above_the_truth_with_them(k: int) -> None:
    def divergence(outcomes: int) -> float:
        # Equally likely outcomes, ranked: the best of k is outcome i with (i^k - (i-1)^k) / m^k.
        i = np.arange(1, outcomes + 1) / outcomes
        p = i**k - (i - 1 / outcomes) ** k
        p = p[p > 0]
        return float(np.sum(p * np.log(p * outcomes)))

    assert divergence(10) <= kl_bound(k) + 1e-12
    assert divergence(200_000) == pytest.approx(kl_bound(k), abs=1e-3)


@pytest.mark.parametrize("k", [1.0, 1.5, 16.0, 4e5])
def test_k_of_undoes_the_bound(k: float) -> None:
    assert k_of(math.sqrt(kl_bound(k))) == pytest.approx(k, rel=1e-6)


def test_edges() -> None:
    assert k_of(1e3) is None
    with pytest.raises(UsageError, match="at least 1"):
        kl_bound(0.5)
