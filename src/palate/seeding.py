"""One seeded stream per content hash: what is drawn depends on what it is drawn for.

Nothing here knows of data-set order, so filtering, shuffling or resuming moves no draw.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")
CANONICAL = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
)
"""Made once: `json.dumps` makes an encoder a call, which costs a third of a short text."""


def canonical_json(value: object) -> str:
    """Return the one JSON text of a value: sorted keys, no spaces, no NaN.

    >>> canonical_json({"b": 1, "a": [True, None]})
    '{"a":[true,null],"b":1}'
    """
    return CANONICAL.encode(value)


def digest(*parts: object) -> str:
    """Return the SHA-256 of the parts' canonical JSON, as 64 hexadecimal digits.

    >>> digest("a", 1)[:8] == digest("a", 1)[:8] != digest("a1")[:8]
    True
    """
    return hashlib.sha256(canonical_json(parts).encode("utf-8", "surrogatepass")).hexdigest()


def rng(*parts: object) -> np.random.Generator:
    """Return a generator that is a function of the parts alone."""
    return np.random.default_rng(int(digest(*parts)[:32], 16))


def unit(*parts: object) -> float:
    """Return a number in [0, 1) that is a function of the parts alone.

    >>> 0 <= unit(0, "question", "response") < 1
    True
    """
    return int(digest(*parts)[:13], 16) / 16**13


def shuffled(items: Sequence[T], *parts: object) -> list[T]:
    """Return the items in an order that is a function of the parts alone."""
    return [items[i] for i in rng(*parts).permutation(len(items))]
