"""Products of vectors and heads that round alike, however many are computed at once.

A product of matrices rounds by the shape of both. What scores a response must not depend on which
others are scored with it, so these sum each response's numbers in one order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from palate.learning.personal.choices import Doubles


def dots(vectors: NDArray[np.floating], heads: Doubles) -> Doubles:
    """Return the product of each vector (… × d) with a head (d), or with several (k × d → … × k).

    >>> dots(np.ones((1, 2, 3)), np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 1.0]])).tolist()
    [[[6.0, 1.0], [6.0, 1.0]]]
    """
    subscripts = "...d,d->..." if heads.ndim == 1 else "...d,kd->...k"
    return np.asarray(np.einsum(subscripts, _laid_out(vectors), _laid_out(heads)))


def slate_dots(vectors: NDArray[np.floating], heads: Doubles) -> Doubles:
    """Return the product of a slate's vectors (s × c × d) with the slate's head (s × d), s × c."""
    return np.asarray(np.einsum("scd,sd->sc", _laid_out(vectors), _laid_out(heads)))


def _laid_out(array: NDArray[np.floating]) -> Doubles:
    # Sums run in the order of memory, and what was saved and loaded may lie otherwise.
    return np.ascontiguousarray(array, np.float64)
