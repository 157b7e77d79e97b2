"""Figures of what was selected: a mean quality, and how far something moved it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from palate.metrics.arrays import FloatArray
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import ROUNDING, Estimate
from palate.metrics.means import Bounds, clustered_mean
from palate.metrics.paired import sign_flip_test


def level(values: FloatArray, clusters: Clusters, bounds: Bounds) -> Estimate:
    """Mean quality; no p.

    >>> pairs = Clusters.of(["ann", "ann", "bob", "cem", "dan"])
    >>> round(level(np.array([0.2, 0.4, 0.6, 0.5, 0.7]), pairs, (0.0, 1.0)).value, 2)
    0.48
    """
    if not values.size:
        return Estimate()
    lo, hi = bounds
    # No value is a hypothesis here: one that the mean does not have gives no point interval. But
    # of couples the middle is one, that of a scorer which is blind to the user.
    null = lo if float(values.mean()) > lo + ROUNDING * (hi - lo) else hi
    if clusters.couples:
        null = (lo + hi) / 2
    estimate = clustered_mean(np.clip(values, lo, hi), clusters, null=null, bounds=bounds)
    return replace(estimate, p=None)


def moved_by(values: FloatArray, clusters: Clusters, width: float, seed: int) -> Estimate:
    """Mean of differences in [-width, width]; p by sign flips of the users' sums.

    Where users share questions, or units are couples, these sums are not independent, and p is that
    of the interval's t.
    """
    # What rounding leaves of equal values is no difference, and must not be tested as one.
    values = np.where(np.abs(values) <= ROUNDING * width, 0.0, np.clip(values, -width, width))
    estimate = clustered_mean(values, clusters, null=0.0, bounds=(-width, width))
    if clusters.couples or clusters.items is not None:
        return estimate
    return replace(estimate, p=sign_flip_test(values, clusters.users[0], seed=seed))
