"""Where a fit begins: directions in which users differ, and users far from each other."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import svds

from palate.learning.methods.user_heads import offsets
from palate.learning.personal.choices import Choices, Doubles

VARIANCE = 1.0
"""τ² of the heads of single users that a start is made of; only their directions matter."""


def differences_of_users(choices: Choices, head: Doubles) -> Doubles:
    """Return how the head of each user with choices differs from `head` (users × d)."""
    found = offsets(choices, head, VARIANCE)
    return found[choices.counts > 0].astype(np.float64)


def truncated_svd(
    matrix: Doubles, rank: int, stream: np.random.Generator
) -> tuple[Doubles, Doubles, Doubles]:
    """Return U (n × r), s (r, falling) and V' (r × d) with U s V' ≈ matrix, r ≤ rank.

    >>> _, sizes, _ = truncated_svd(np.diag([1.0, 5.0, 3.0]), 2, np.random.default_rng(0))
    >>> sizes.round(6).tolist()
    [5.0, 3.0]
    """
    rank = min(rank, *matrix.shape)
    if rank < min(matrix.shape) and rank > 0 and np.abs(matrix).max() > 0:
        parts = svds(matrix, k=rank, v0=stream.normal(size=min(matrix.shape)))
        left, sizes, right = (np.asarray(part, np.float64) for part in parts)
        order = np.argsort(-sizes)
    else:
        left, sizes, right = np.linalg.svd(matrix, full_matrices=False)
        order = np.arange(rank)
    return left[:, order], sizes[order], right[order]


def farthest_points(points: Doubles, count: int, stream: np.random.Generator) -> Doubles:
    """Return `count` of the points (n × d) far from each other, noise taken off.

    Drawn as the first centres of k-means++ (Arthur and Vassilvitskii 2007) among the points'
    approximations of rank `count`.
    """
    left, sizes, right = truncated_svd(points, count, stream)
    smooth = (left * sizes) @ right
    picked = [int(stream.integers(len(smooth)))]
    nearest = np.full(len(smooth), np.inf)
    while len(picked) < count:
        nearest = np.minimum(nearest, ((smooth - smooth[picked[-1]]) ** 2).sum(axis=1))
        total = nearest.sum()
        odds = nearest / total if total > 0 else np.full(len(smooth), 1 / len(smooth))
        picked.append(int(stream.choice(len(smooth), p=odds)))
    return np.asarray(smooth[picked])
