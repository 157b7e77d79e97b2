"""Expected gold value of the best of k samples, averaged over all k-subsets.

For one question with n usable samples, ranked 1 … n upward by their score:

```
E_k = Σ_j w_j g_j,   w_j = C(j - 1, k - 1) / C(n, k)
```

where samples of equal score share the mean of their gold values: a tie for the highest score of
a subset is broken uniformly. A U-statistic, so unbiased for the best of k fresh samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import ArrayLike

from palate.errors import UsageError
from palate.metrics.arrays import FloatArray, IntArray


def best_of(scores: ArrayLike, gold: ArrayLike, ks: Sequence[int]) -> FloatArray:
    """Value of each question at each k, shape (questions, len(ks)).

    A sample counts where it has both a score and a gold value; the others are left out as if
    they had not been drawn. So the value is that of the best of k *usable* samples, and it is NaN
    where a question has fewer than k of them (``usable`` counts them).

    Scores are compared as they come: give float32 scores where float32 ties should be ties. Only
    their order is read. O(questions · N · max k) time, O(questions · N) memory.

    ``scores`` and ``gold``, the quality of each sample, have shape (questions, N); NaN where there
    is none. Raises `UsageError` for a k that is not in 1 … N.

    >>> best_of([[3, 1, 2, 2]], [[1.0, 0.0, 0.4, 0.8]], [1, 2, 4]).round(3).tolist()
    [[0.55, 0.8, 1.0]]
    """
    s, g = samples(scores, gold)
    wanted = sizes(ks, s.shape[1])
    values = np.full((len(s), len(wanted)), np.nan)
    counts = usable(s, g)
    for n in np.unique(counts[counts > 0]).tolist():
        rows = np.flatnonzero(counts == n)
        ranked = _in_score_order(s[rows], g[rows], n)
        for k, weights in _weights(n, min(n, max(wanted))):
            for column in np.flatnonzero(np.equal(wanted, k)).tolist():
                values[rows, column] = ranked[:, n - weights.size :] @ weights
    return values


def usable(scores: ArrayLike, gold: ArrayLike) -> IntArray:
    """Samples of each question that have both a score and a gold value, shape (questions,).

    >>> usable([[1, None, 2]], [[0.5, 0.5, None]]).tolist()
    [1]
    """
    s, g = samples(scores, gold)
    return np.asarray((~np.isnan(s + g)).sum(axis=1), dtype=np.int64)


def kl_bound(k: float) -> float:
    """Upper bound of KL(best of k ‖ policy) in nats: ``log k - (k - 1)/k``.

    An equality only where no two samples are equal and no scores tie (Beirami et al. 2024).

    Raises `UsageError` for k below 1.

    >>> [round(kl_bound(k), 3) for k in (1, 2, 4, 16, 128)]
    [0.0, 0.193, 0.636, 1.835, 3.86]
    """
    if not k >= 1:
        raise UsageError(f"best of {k:g}: k must be at least 1")
    return math.log(k) - (k - 1) / k


def samples(scores: ArrayLike, gold: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both as float64 arrays of shape (questions, N), refused as by `best_of`."""
    s, g = np.asarray(scores, dtype=np.float64), np.asarray(gold, dtype=np.float64)
    if s.ndim != 2 or s.shape != g.shape:
        raise ValueError(
            f"expected scores and gold values of one shape (questions, samples), "
            f"got {s.shape} and {g.shape}"
        )
    if bool(np.isinf(s).any() or np.isinf(g).any()):
        raise ValueError("scores and gold values must be finite, or NaN where there is none")
    return s, g


def sizes(ks: Sequence[int], n: int) -> list[int]:
    """Return the ks as a list, refused unless each is in 1 … n."""
    for k in ks:
        if not 1 <= k <= n:
            raise UsageError(
                f"best of {k} needs {k} samples and there are {n}; sample more or lower k"
            )
    if not len(ks):
        raise UsageError("no k is given")
    return [int(k) for k in ks]


def _in_score_order(s: FloatArray, g: FloatArray, n: int) -> FloatArray:
    # Gold values of the n usable samples by rising score, each the mean of its tie.
    s = np.where(np.isnan(g), np.nan, s)
    order = np.argsort(s, axis=1, kind="stable")[:, :n]
    s, g = np.take_along_axis(s, order, axis=1), np.take_along_axis(g, order, axis=1)
    starts = np.ones(s.shape, dtype=bool)
    starts[:, 1:] = s[:, 1:] != s[:, :-1]
    tie = np.cumsum(starts.ravel()) - 1
    means = np.bincount(tie, weights=g.ravel()) / np.bincount(tie)
    ranked: FloatArray = means[tie].reshape(s.shape)
    return ranked


def _weights(n: int, most: int) -> Iterator[tuple[int, FloatArray]]:
    """Weights of the ranks k … n for k = 1 … most; lower ranks have weight 0.

    ``w_j(k + 1) = w_j(k) · (j - k)/k · (k + 1)/(n - k)``: no difference is taken and no factor
    overflows, so that thousands of samples lose no digits.
    """
    w = np.full(n, 1 / n)
    for k in range(1, most + 1):
        yield k, w
        if k < most:
            # The rank j = k drops out: no subset of k + 1 has its maximum there.
            ahead = np.arange(1.0, n - k + 1)
            w = w[1:] * (ahead / k) * ((k + 1) / (n - k))
