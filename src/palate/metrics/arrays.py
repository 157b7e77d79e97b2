"""The arrays of every metric: float vectors with NaN for unscored, and user ids as codes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Ids = Sequence[Hashable] | NDArray[Any]
FOLDS = 5


def vector(values: ArrayLike, bounds: tuple[float, float] | None = None) -> FloatArray:
    """Return the values as a one-dimensional float64 array; NaN lies within any ``bounds``.

    >>> vector([1, None, 0], bounds=(0, 1)).tolist()
    [1.0, nan, 0.0]
    """
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 1:
        raise ValueError(f"expected a one-dimensional array of values, got shape {array.shape}")
    if bounds is not None and bool(np.any((array < bounds[0]) | (array > bounds[1]))):
        raise ValueError(f"expected values in [{bounds[0]:g}, {bounds[1]:g}] or NaN")
    return array


def same_length(**columns: Sequence[Any] | NDArray[Any]) -> None:
    """Refuse columns of unequal length, naming each with its length.

    >>> same_length(values=[1, 0], users=["ann"])
    Traceback (most recent call last):
    ValueError: columns differ in length: values 2, users 1
    """
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"columns differ in length: {listed}")


def id_codes(ids: Ids) -> tuple[IntArray, list[Hashable]]:
    """Number the ids 0, 1, … in order of first appearance; also return the distinct ids.

    A dictionary, not ``numpy.unique``, so that 1 and "1" stay two users and tuples one id each.
    NaN is refused: it would make every row a user of its own.

    >>> codes, names = id_codes(["ann", "bob", "ann"])
    >>> codes.tolist(), names
    ([0, 1, 0], ['ann', 'bob'])
    """
    seen: dict[Hashable, int] = {}
    codes = np.fromiter((seen.setdefault(i, len(seen)) for i in listed(ids)), np.int64, len(ids))
    names = list(seen)
    if any(isinstance(name, float) and math.isnan(name) for name in names):
        raise ValueError("a user id is NaN; give rows without a user an id of their own")
    return codes, names


def sums(codes: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """Add up the weights by code.

    ``sums[u] = Σ_{i: codes_i = u} weights_i``, shape (size,).

    >>> sums(np.array([0, 1, 0]), np.array([1.0, 2.0, 4.0]), 2).tolist()
    [5.0, 2.0]
    """
    return np.bincount(codes, weights=weights, minlength=size).astype(np.float64)


def row_means(values: FloatArray) -> FloatArray:
    """Return the mean of each row's numbers; NaN of a row without any, and no warning.

    >>> row_means(np.array([[1.0, np.nan], [np.nan, np.nan]])).tolist()
    [1.0, nan]
    """
    known = ~np.isnan(values)
    counts = known.sum(axis=1)
    sums = np.where(known, values, 0.0).sum(axis=1)
    means: FloatArray = np.divide(sums, counts, out=np.full(len(values), np.nan), where=counts > 0)
    return means


def scored_rows(values: FloatArray, ids: Ids) -> tuple[FloatArray, IntArray, list[Hashable]]:
    """Leave out the NaN rows and code the ids of the others; also return their distinct ids.

    >>> scored, codes, names = scored_rows(np.array([1.0, np.nan, 0.0]), ["ann", "bob", "ann"])
    >>> scored.tolist(), codes.tolist(), names
    ([1.0, 0.0], [0, 0], ['ann'])
    """
    same_length(values=values, users=ids)
    if bool(np.isinf(values).any()):
        raise ValueError("values must be finite, or NaN where unscored")
    scored = ~np.isnan(values)
    return values[scored], *id_codes(list(compress(listed(ids), scored)))


def listed(ids: Ids) -> Sequence[Hashable]:
    """Return the ids as a sequence of Python's own objects."""
    return ids.tolist() if isinstance(ids, np.ndarray) else ids


def deal(names: Sequence[Hashable], seed: int) -> IntArray:
    """Fold of each name, of at most five: dealt from a seeded shuffle, sorted by ``str(name)``.

    >>> sorted(deal(["ann", "bob", "cy"], seed=0).tolist())
    [0, 1, 2]
    """
    fold = np.empty(len(names), dtype=np.int64)
    order = sorted(range(len(names)), key=[str(name) for name in names].__getitem__)
    fold[order] = np.random.default_rng(seed).permutation(len(names)) % min(FOLDS, len(names))
    return fold
