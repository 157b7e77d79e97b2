"""Options that contexts share, and the one spelling of each."""

from __future__ import annotations

import re
from collections.abc import Mapping

from palate.engines.http import canonical
from palate.errors import SpecError
from palate.records import MOST_STRANGERS
from palate.specs import Spec

DRAWS = 1
"""Strangers that a row is shown one after another, unless `?draws=N` says otherwise."""


def read_count(spec: Spec, example: str, noun: str) -> int:
    """Return the reference as a whole number of 1 or more."""
    text = spec.need_reference(example)
    if not re.fullmatch(r"[0-9]{1,9}", text) or int(text) < 1:
        raise SpecError(f"{spec}: {text!r} is no number of {noun} of 1 or more")
    return int(text)


def read_owner(spec: Spec) -> tuple[str, int]:
    """Return whose text is shown, `self` or `stranger`, and of how many strangers, at most 256.

    Raises `SpecError` for more, and where a row is shown none.
    """
    of = spec.choice("of", ("self", "stranger"), "self")
    if "draws" in spec.options and of != "stranger":
        raise SpecError(f"spec {str(spec)!r}: draws counts strangers; it goes with of=stranger")
    return of, spec.number("draws", DRAWS, least=1, most=MOST_STRANGERS)


def one_spelling(
    spec: Spec, read: Mapping[str, str | int], default: Mapping[str, str | int]
) -> str:
    """Return the canonical spec: options as they were read, without defaults and network options.

    >>> spec = Spec.parse("plan:api:m?base_url=http://127.0.0.1/v1&k=010&timeout=9&of=self")
    >>> one_spelling(spec, {"k": 10, "of": "self"}, {"k": 10, "of": "self"})
    'plan:api:m?base_url=http://127.0.0.1/v1'
    """
    kept = {name: value for name, value in spec.options.items() if name not in read}
    kept |= {name: str(value) for name, value in read.items() if value != default.get(name)}
    return canonical(spec.model_copy(update={"options": kept}))
