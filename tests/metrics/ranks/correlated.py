"""Figures of scorers on two benchmarks and downstream, drawn with given correlations."""

import numpy as np


def scorers(rng: np.random.Generator, n: int, r1: float, r2: float, r12: float) -> np.ndarray:
    return rng.multivariate_normal(np.zeros(3), [[1, r12, r1], [r12, 1, r2], [r1, r2, 1]], size=n).T


def half_blind(rng: np.random.Generator, n: int, blind: int, *r: float) -> np.ndarray:
    columns = scorers(rng, n, *r)
    columns[:2] += 0.3
    columns[:2, :blind] = 0
    return columns
