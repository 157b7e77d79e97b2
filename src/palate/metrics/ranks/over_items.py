"""Interval over items: the agreement of these scorers if both figures had no noise.

Noise in the figures can only blur a ranking, so measured agreement is lower than true agreement,
and draws of users add their noise a second time: no percentile of them covers. So the noise is
taken out instead. From figures without each user the jackknife gives every scorer i the 2 × 2
covariance N_i of its two figures, what users do to all scorers alike taken out first (nothing,
where some scorer is moved by no user). Each side is put on the smooth monotone scale on which its
figures are about normal, N_i by its slope there:

```
z(x) = Φ⁻¹(mean_j Φ((x - x_j)/h)),   h = max(0.25 sd, √ mean noise variance)
```

so that two figures that rise together, in whatever curve, lie on a line. On that scale

```
true figures     (a_i, b_i) ~ N(mean, T_r),   T_r = [[s_a², r s_a s_b], [r s_a s_b, s_b²]]
measured         (x_i, y_i) = (a_i, b_i) + noise,   noise ~ N(0, N_i)
s_a, s_b from 0.1 to 1.3 times the standard deviation of x, of y;   r = sin(π τ / 2)
beforehand every s_a, s_b in its range and every τ in [-1, 1] is equally likely
```

and the interval is the 2.5 to 97.5 % range of the statistic of (a, b) given (x, y). The noise of
two scorers counts as independent once the shared part is out. Scorers that no user moves, as who is
blind to the user on mirrored couples, are known and keep their figures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray
from palate.metrics.estimates import ROUNDING, TAIL
from palate.metrics.ranks.over_scorers import DRAWS, NO_RANGE, Range
from palate.metrics.ranks.statistics import Statistic

LEAST_NOISY = 3
TAUS = 41
LARGEST_R = 0.99999
SCALES = np.linspace(0.1, 1.3, 9)
SMOOTHING = 0.25
SCALE_POINTS = 801


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Both figures of every scorer with one user at a time left out.

    Example:
        >>> import numpy as np
        >>> Replicates(np.zeros((30, 6)), np.zeros((30, 6)), same_users=True).same_users
        True
    """

    benchmark: ArrayLike | None
    """Shape (users, n): row u holds the n benchmark figures without user u."""
    downstream: ArrayLike | None
    """Shape (users, n); None for either where a figure has no noise or none is known."""
    same_users: bool = False
    """True where row u leaves out the same user in both, so that their noise goes together."""


def noise(
    x: FloatArray, y: FloatArray, replicates: Replicates
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Variance of each x_i, of each y_i, and their covariance, each of shape (n,).

    ``N = ((U - 1)/U) Σ_u d_u d_u'`` with d_u the figures without user u minus those with all.

    Raises:
        UsageError: for replicates of another shape, fewer than two users, values that are not
            finite, or ``same_users`` with unequal numbers of rows.
    """
    a = deviations(x, replicates.benchmark, "benchmark")
    b = deviations(y, replicates.downstream, "downstream")
    if not replicates.same_users:
        return (a * a).sum(axis=0), (b * b).sum(axis=0), np.zeros(x.size)
    if a.shape != b.shape:
        raise UsageError(
            f"the same users left out, but {len(a)} benchmark and {len(b)} downstream replicates"
        )
    return (a * a).sum(axis=0), (b * b).sum(axis=0), (a * b).sum(axis=0)


def deviations(figures: FloatArray, replicates: ArrayLike | None, side: str) -> FloatArray:
    """√((U - 1)/U) times what leaving each user out moves, less `shared_part`.

    Shape (users, n); (1, n) zeros without replicates.

    Raises:
        UsageError: as ``noise``.
    """
    if replicates is None:
        return np.zeros((1, figures.size))
    rows = np.asarray(replicates, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != figures.size or len(rows) < 2:
        raise UsageError(
            f"{side} replicates have shape {rows.shape}; expected at least two users "
            f"× {figures.size} scorers"
        )
    if not bool(np.isfinite(rows).all()):
        raise UsageError(f"{side} replicates hold values that are not finite")
    moved: FloatArray = rows - figures
    moved -= shared_part(moved)
    moved *= np.sqrt((len(rows) - 1) / len(rows))
    return moved


def shared_part(moved: FloatArray) -> FloatArray:
    """What moves all scorers alike: the mean of each row of moves (users × scorers).

    Shape (users, 1). Where a scorer is not moved at all, as who is blind to the user is not on
    mirrored couples, nothing moves all alike, and it is 0.

    Example:
        >>> shared_part(np.array([[1.0, 3.0], [0.0, -2.0]])).ravel().tolist()
        [2.0, -1.0]
        >>> shared_part(np.array([[0.0, 3.0], [0.0, -2.0]])).ravel().tolist()
        [0.0, 0.0]
    """
    still = np.abs(moved).max(axis=0) <= ROUNDING
    mean: FloatArray = moved.mean(axis=1, keepdims=True)
    return np.zeros_like(mean) if still.any() else mean


def range_over_items(
    statistic: Statistic,
    x: FloatArray,
    y: FloatArray,
    replicates: Replicates,
    *,
    seed: int = 0,
    draws: int = DRAWS,
) -> Range:
    """Give the 95 % interval of this module; none where all figures of a side are equal.

    Args:
        statistic: the statistic.
        x: the benchmark's figures, shape (n,).
        y: the downstream figures, shape (n,).
        replicates: the same without each user.
        seed: of the draws.
        draws: how many sets of true figures are drawn.

    Raises:
        UsageError: as ``noise``.

    Example:
        >>> from palate.metrics.ranks.statistics import statistics
        >>> users = np.random.default_rng(0).normal(np.arange(6.0), 2.0, (50, 6))
        >>> x, without = users.mean(axis=0), (users.sum(axis=0) - users) / 49
        >>> found = range_over_items(statistics()[0], x, np.arange(6.0), Replicates(without, None))
        >>> round(found.low, 2), found.high
        (0.87, 1.0)
    """
    variances = noise(x, y, replicates)
    if not (np.ptp(x) and np.ptp(y)):
        return NO_RANGE
    values = statistic(*true_figures(x, y, variances, seed=seed, draws=draws))
    low, high = np.quantile(values, [TAIL, 1 - TAIL], method="inverted_cdf").tolist()
    return Range(low, high)


def true_figures(
    x: FloatArray,
    y: FloatArray,
    variances: tuple[FloatArray, FloatArray, FloatArray],
    *,
    seed: int,
    draws: int,
) -> tuple[FloatArray, FloatArray]:
    """Draw the true figures of all scorers given the measured ones, each of shape (draws, n).

    Scorers that no user moves are known, and keep the figures they have: the spread of the others
    is learnt from the others alone. With fewer than three of these all are drawn together.
    """
    noisy = np.maximum(variances[0], variances[1]) > ROUNDING**2
    if noisy.all() or noisy.sum() < LEAST_NOISY or not (np.ptp(x[noisy]) and np.ptp(y[noisy])):
        return _drawn(x, y, variances, seed=seed, draws=draws)
    some = variances[0][noisy], variances[1][noisy], variances[2][noisy]
    found = np.repeat(x[None], draws, axis=0), np.repeat(y[None], draws, axis=0)
    found[0][:, noisy], found[1][:, noisy] = _drawn(
        x[noisy], y[noisy], some, seed=seed, draws=draws
    )
    return found


def _drawn(
    x: FloatArray,
    y: FloatArray,
    variances: tuple[FloatArray, FloatArray, FloatArray],
    *,
    seed: int,
    draws: int,
) -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(seed)
    scales = _Scale(x, variances[0]), _Scale(y, variances[1])
    placed = np.stack([scale.placed for scale in scales], axis=-1)
    slope_x, slope_y = (scale.slope for scale in scales)
    spread = np.empty((x.size, 2, 2))
    spread[:, 0, 0], spread[:, 1, 1] = variances[0] * slope_x**2, variances[1] * slope_y**2
    spread[:, 0, 1] = spread[:, 1, 0] = variances[2] * slope_x * slope_y
    mean = placed.mean(axis=0)
    measured, prior = placed - mean, _priors(placed)
    total = prior + spread
    inverse, log_det = _inverse(total)
    distance = np.einsum("ni,gnij,nj->g", measured, inverse, measured)
    log_weight = -(log_det.sum(axis=1) + distance) / 2
    weight = np.exp(log_weight - log_weight.max())
    drawn = rng.choice(weight.size, size=draws, p=weight / weight.sum())
    prior = prior[drawn]
    gain = prior @ inverse[drawn]
    centre = mean + np.einsum("bnij,nj->bni", gain, measured)
    root = _root(prior - gain @ prior)
    shocks = rng.standard_normal((draws, x.size, 2))
    figures = centre + np.einsum("bnij,bnj->bni", root, shocks)
    return scales[0].back(figures[..., 0]), scales[1].back(figures[..., 1])


class _Scale:
    """The scale z of this module: where each figure lies on it, its slope, the way back."""

    def __init__(self, figures: FloatArray, noise: FloatArray) -> None:
        h = max(SMOOTHING * float(figures.std(ddof=1)), float(np.sqrt(noise.mean())))
        # Eight bandwidths beyond the ends no draw falls off, and Φ⁻¹ is still finite.
        self._figures = np.linspace(figures.min() - 8 * h, figures.max() + 8 * h, SCALE_POINTS)
        below = ndtr((self._figures[:, None] - figures) / h).mean(axis=1)
        above = ndtr((figures - self._figures[:, None]) / h).mean(axis=1)
        self._z = np.where(below < above, ndtri(below), -ndtri(above))
        self.placed = np.interp(figures, self._figures, self._z)
        self.slope = np.interp(figures, self._figures, np.gradient(self._z, self._figures))

    def back(self, z: FloatArray) -> FloatArray:
        """Figures at the places z."""
        return np.interp(z, self._z, self._figures)


def _priors(placed: FloatArray) -> FloatArray:
    # T for every s_a, s_b and r, shape (grid, 1, 2, 2).
    seen = placed.std(axis=0, ddof=1)
    r = np.clip(np.sin(np.pi / 2 * np.linspace(-1.0, 1.0, TAUS)), -LARGEST_R, LARGEST_R)
    s_a, s_b, r = (
        axis.ravel() for axis in np.meshgrid(SCALES * seen[0], SCALES * seen[1], r, indexing="ij")
    )
    prior = np.empty((r.size, 1, 2, 2))
    prior[:, 0, 0, 0], prior[:, 0, 1, 1] = s_a**2, s_b**2
    prior[:, 0, 0, 1] = prior[:, 0, 1, 0] = r * s_a * s_b
    return prior


def _inverse(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    # Of many symmetric 2 × 2 matrices at once: the inverses and the logarithms of determinants.
    a, b, c = matrices[..., 0, 0], matrices[..., 1, 1], matrices[..., 0, 1]
    determinant = a * b - c * c
    inverse = np.empty_like(matrices)
    inverse[..., 0, 0], inverse[..., 1, 1] = b / determinant, a / determinant
    inverse[..., 0, 1] = inverse[..., 1, 0] = -c / determinant
    return inverse, np.log(determinant)


def _root(covariance: FloatArray) -> FloatArray:
    # A square root of each matrix; rounding may leave an eigenvalue of 0 slightly below it.
    values, vectors = np.linalg.eigh((covariance + np.swapaxes(covariance, -1, -2)) / 2)
    root: FloatArray = vectors * np.sqrt(np.clip(values, 0.0, None))[..., None, :]
    return root
