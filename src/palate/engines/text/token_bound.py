"""A bound on the tokens of a text, told from its bytes without a tokenizer's work."""

from __future__ import annotations

import json
from typing import Any

SAME = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
CANONICAL = {"NFC": 3, "NFD": 3}
"""Bytes that a byte becomes at most (Unicode's report 15, section 12)."""


def tokens_per_byte(tokenizer: Any) -> int | None:
    """Return how many tokens a byte of UTF-8 can make, or None where the tokenizer is another kind.

    Of any tokenizer, a token stands for a byte or more of the normalised text. So the question is
    what normalising adds; one mark before a text is not counted.
    """
    backend = tokenizer.backend_tokenizer
    factor = 1
    for step in _steps(backend.normalizer, "normalizers"):
        if step["type"] in CANONICAL:
            factor *= CANONICAL[step["type"]]
        elif step["type"] != "Prepend" and step != SAME:
            return None
    marks = "▁" in f"{backend.normalizer}{backend.pre_tokenizer}" or _has(backend, "Metaspace")
    if marks and backend.token_to_id("▁") is None:  # else a space is one token, not three bytes
        return None
    return factor


def _has(backend: Any, kind: str) -> bool:
    return any(step["type"] == kind for step in _steps(backend.pre_tokenizer, "pretokenizers"))


def _steps(part: Any, inner: str) -> list[dict[str, Any]]:
    if part is None:
        return []
    made: dict[str, Any] = json.loads(part.__getstate__())
    return list(made[inner]) if made["type"] == "Sequence" else [made]
