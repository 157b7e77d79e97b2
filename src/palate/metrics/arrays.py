"""What every metric is handed: float vectors with NaN for unscored, and user ids as codes."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Ids = Sequence[Hashable] | NDArray[Any]


def vector(values: ArrayLike, *, bounds: tuple[float, float] | None = None) -> FloatArray:
    """Return the values as a one-dimensional float64 array.

    Raises:
        ValueError: for another shape, or a value outside of ``bounds`` (NaN passes).

    Example:
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
    """Refuse columns of unequal length.

    Raises:
        ValueError: naming each column with its length.

    Example:
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

    Raises:
        ValueError: for a NaN id, which would make every row a user of its own.

    Example:
        >>> codes, names = id_codes(["ann", "bob", "ann"])
        >>> codes.tolist(), names
        ([0, 1, 0], ['ann', 'bob'])
    """
    seen: dict[Hashable, int] = {}
    listed = ids.tolist() if isinstance(ids, np.ndarray) else ids
    codes = np.fromiter((seen.setdefault(i, len(seen)) for i in listed), np.int64, len(listed))
    names = list(seen)
    if any(isinstance(name, float) and math.isnan(name) for name in names):
        raise ValueError("a user id is NaN; give rows without a user an id of their own")
    return codes, names


def sums(codes: IntArray, weights: FloatArray, size: int) -> FloatArray:
    """Add up the weights by code.

    ``sums[u] = Σ_{i: codes_i = u} weights_i``, shape (size,).

    Example:
        >>> sums(np.array([0, 1, 0]), np.array([1.0, 2.0, 4.0]), 2).tolist()
        [5.0, 2.0]
    """
    return np.bincount(codes, weights=weights, minlength=size).astype(np.float64)


def scored_rows(
    values: FloatArray, *id_columns: Ids
) -> tuple[FloatArray, list[IntArray], list[Hashable]]:
    """Leave out the NaN rows, then code all id columns together.

    Returns the scored values, one code array per id column, and the distinct ids of those rows.

    Example:
        >>> kept, (codes,), names = scored_rows(np.array([1.0, np.nan, 0.0]), ["ann", "bob", "ann"])
        >>> kept.tolist(), codes.tolist(), names
        ([1.0, 0.0], [0, 0], ['ann'])
    """
    for column in id_columns:
        same_length(values=values, users=column)
    scored = ~np.isnan(values)
    joined: list[Hashable] = []
    for column in id_columns:
        listed = column.tolist() if isinstance(column, np.ndarray) else column
        joined += [i for i, keep in zip(listed, scored.tolist(), strict=True) if keep]
    codes, names = id_codes(joined)
    return values[scored], np.split(codes, len(id_columns)), names
