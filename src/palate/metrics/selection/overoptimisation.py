"""Where picking by a scorer stops helping: Gao, Schulman and Hilton's curve of best-of-n.

With d = √(log k - (k - 1)/k), the gold value gained over one sample is fitted by

```
R(d) = d (α - β d)         peak at d* = α / (2β),  R(d*) = α² / (4β)
```

by least squares (arXiv 2210.10760, section 3). The fit is linear in the gains, so α and β are
means over rows of numbers per row, and have the jackknife interval of a curve's gain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray, Ids, IntArray, same_length
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import ROUNDING, Estimate
from palate.metrics.means import clustered_mean
from palate.metrics.selection.best_of import best_of, kl_bound, samples, sizes, usable
from palate.metrics.selection.curves import UNBOUNDED_BY
from palate.metrics.selection.units import Units

Peak = Literal["within", "beyond", "start", "none"]


@dataclass(frozen=True, slots=True)
class OverOptimisation:
    """The fitted curve and its peak."""

    alpha: Estimate
    """Slope at d = 0, gold units per √nat; p against 0."""
    beta: Estimate
    """How fast it bends; only where its interval lies above 0 is there a peak."""
    ks: tuple[int, ...]
    """The sizes it was fitted on."""
    residual: float
    """Root mean square of what the curve leaves of the mean gains."""
    peak: Peak
    """``within`` the fitted ks; ``beyond`` them, an extrapolation; at the ``start``, where the
    first step already loses; ``none`` where β's interval does not lie above 0: that the curve
    bends down is not shown."""
    peak_d: float | None
    """d*; None without a peak."""
    peak_k: float | None
    """k with that d; not an integer. None without a peak, or beyond e^600."""
    peak_gain: float | None
    """R(d*)."""
    n_left_out: int
    """Questions with fewer than max(ks) usable samples."""


def over_optimisation(
    scores: ArrayLike,
    gold: ArrayLike,
    users: Ids,
    ks: Sequence[int] | None = None,
    *,
    questions: Ids | None = None,
    mirrors: Sequence[int] | IntArray | None = None,
) -> OverOptimisation:
    """Fit R(d) = d(α - βd) to the gains of best-of-k over one sample.

    Arguments are those of `best_of_curve`. All ks weigh the same; k = 1 says nothing and is passed
    over. By default they are up to 16 sizes from 2 to N/2, evenly spaced in log k: the solid part
    of the curve.

    Raises as `best_of_curve`, and `UsageError` for fewer than two ks above 1, or no question with
    max(ks) usable samples.

    >>> import numpy as np
    >>> gold = np.random.default_rng(0).normal(size=(200, 64))
    >>> fit = over_optimisation(gold, gold, list(range(200)))
    >>> round(fit.alpha.value, 2), round(fit.beta.value, 2), fit.peak
    (1.27, -0.01, 'none')
    """
    s, g = samples(scores, gold)
    same_length(gold=g, users=users)
    wanted = _default_ks(s.shape[1]) if ks is None else sorted(set(sizes(ks, s.shape[1])) - {1})
    if len(wanted) < 2:
        raise UsageError("two parameters need at least two sizes above 1 (N of 6 or more)")
    units = Units.of(users, questions, usable(s, g) >= wanted[-1], mirrors)
    if not units.usable.any():
        raise UsageError(f"no question has {wanted[-1]} samples with a score and a gold value")
    values = units.values(best_of(s, g, [1, *wanted]))
    gains = values[:, 1:] - values[:, :1]
    # What rounding leaves of equal values must not be fitted.
    gains[np.abs(gains) <= ROUNDING * max(1.0, float(np.abs(values).max()))] = 0.0
    d = np.sqrt([kl_bound(k) for k in wanted])
    design = np.stack([d, -(d**2)], axis=1)
    by_question = gains @ np.linalg.pinv(design).T
    alpha, beta = by_question.mean(axis=0).tolist()
    rest = gains.mean(axis=0) - design @ np.array([alpha, beta])
    bends = _estimate(by_question[:, 1], units.clusters)
    peak = _peak(alpha, bends, float(d[-1]))
    peak_d = None if peak == "none" else 0.0 if peak == "start" else alpha / (2 * beta)
    return OverOptimisation(
        alpha=_estimate(by_question[:, 0], units.clusters),
        beta=bends,
        ks=tuple(wanted),
        residual=float(np.sqrt(np.mean(rest**2))),
        peak=peak,
        peak_d=peak_d,
        peak_k=None if peak_d is None else k_of(peak_d),
        peak_gain=None if peak_d is None else peak_d * (alpha - beta * peak_d),
        n_left_out=int((~units.usable).sum()),
    )


def k_of(d: float) -> float | None:
    """The k whose KL bound is d²: ``log k - (k - 1)/k = d²``; None beyond e^600."""
    if d <= 0:
        return 1.0
    target = d * d
    if target > 598:
        return None
    log_k = brentq(lambda t: t + math.expm1(-t) - target, 0.0, target + 1.0, xtol=1e-12)
    return math.exp(float(log_k))


def _default_ks(n: int) -> list[int]:
    half = n // 2
    if half < 3:
        raise UsageError(f"{n} samples a question are too few to fit a curve; sample at least 6")
    return sorted({round(k) for k in np.geomspace(2, half, 16)})


def _peak(alpha: float, beta: Estimate, last: float) -> Peak:
    if beta.value is None or beta.low is None or beta.low <= 0:
        return "none"
    if alpha <= 0:
        return "start"
    return "within" if alpha / (2 * beta.value) <= last else "beyond"


def _estimate(values: FloatArray, clusters: Clusters) -> Estimate:
    size = UNBOUNDED_BY * max(1.0, float(np.abs(values).max()))
    return clustered_mean(values, clusters, null=0.0, bounds=(-size, size))
