"""The grammar of `kind:reference?option=value&option=value`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, unquote

from palate.errors import SpecError
from palate.records import Record

KIND = re.compile(r"[a-z][a-z0-9_-]*\Z")
NUMBER = re.compile(r"[0-9]*\.?[0-9]+(e-?[0-9]{1,2})?\Z")
WHOLE = re.compile(r"[0-9]{1,18}\Z")
SAFE = "/:@.,~-_"
"""Left as they are in canonical values; everything else outside letters and digits is encoded."""


class Spec(Record):
    """One reading of a spec; `str()` gives its canonical form.

    >>> str(Spec.parse("judge:api:m?verdict=logits&base_url=http://127.0.0.1:8000/v1"))
    'judge:api:m?base_url=http://127.0.0.1:8000/v1&verdict=logits'
    """

    kind: str
    reference: str | None = None
    options: Mapping[str, str] = {}

    @classmethod
    def parse(cls, text: str) -> Spec:
        """Read a spec; raises `SpecError` naming the part that cannot be read."""
        head, _, query = text.partition("?")
        kind, colon, reference = head.partition(":")
        if not KIND.match(kind):
            raise SpecError(
                f"spec {text!r}: {kind!r} is no kind; write kind:reference?option=value"
            )
        if colon and not reference:
            raise SpecError(f"spec {text!r}: nothing follows the colon")
        return cls(
            kind=kind,
            reference=_decoded(text, reference) if colon else None,
            options=_options(text, query),
        )

    def __str__(self) -> str:
        """Write the canonical form: options sorted, values percent-encoded where they must be."""
        head = self.kind if self.reference is None else f"{self.kind}:{quote(self.reference, SAFE)}"
        pairs = (f"{name}={quote(self.options[name], SAFE)}" for name in sorted(self.options))
        query = "&".join(pairs)
        return f"{head}?{query}" if query else head

    def having(self, **options: str | None) -> Spec:
        """Return the spec with these options; None takes one away.

        >>> str(Spec.parse("profile:5?draws=3").having(draws=None, of="stranger"))
        'profile:5?of=stranger'
        """
        every = {**self.options, **options}
        left = {name: value for name, value in every.items() if value is not None}
        return self.model_copy(update={"options": left})

    def need_reference(self, example: str) -> str:
        """Return the reference; raises `SpecError` with an example where it is missing."""
        if self.reference is None:
            raise SpecError(f"spec {self.kind!r} needs a reference, as in {example}")
        return self.reference

    def refuse_reference(self) -> None:
        """Raise `SpecError` if a reference was given to a kind that takes none."""
        if self.reference is not None:
            raise SpecError(f"spec {str(self)!r}: {self.kind} takes no reference")

    def only(self, allowed: Iterable[str]) -> None:
        """Raise `SpecError` for the first option that is not among the allowed."""
        allowed = sorted(allowed)
        for name in self.options:
            if name not in allowed:
                known = ", ".join(allowed) or "none"
                raise SpecError(f"spec {str(self)!r}: unknown option {name!r} (known: {known})")

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        """Return an option that must be one of a few words."""
        value = self.options.get(name, default)
        allowed = list(allowed)
        if value not in allowed:
            raise SpecError(
                f"spec {str(self)!r}: {name}={value!r} is not one of {', '.join(allowed)}"
            )
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
        """Return an option that must be a whole number of at least `least`, at most `most`."""
        value = self.options.get(name)
        if value is None:
            return default
        if not WHOLE.match(value) or int(value) < least or (most is not None and int(value) > most):
            allowed = f"{least} or more" if most is None else f"{least} to {most}"
            raise SpecError(
                f"spec {str(self)!r}: {name}={value!r} is not a whole number of {allowed}"
            )
        return int(value)

    def positive(self, name: str, default: float) -> float:
        """Return an option that must be a number above 0."""
        value = self.options.get(name)
        if value is None:
            return default
        if not NUMBER.match(value) or not 0 < float(value) < float("inf"):
            raise SpecError(f"spec {str(self)!r}: {name}={value!r} is not a number above 0")
        return float(value)


def _options(text: str, query: str) -> dict[str, str]:
    options: dict[str, str] = {}
    for pair in query.split("&") if query else ():
        name, equals, value = pair.partition("=")
        if not equals or not KIND.match(name):
            raise SpecError(f"spec {text!r}: {pair!r} is not option=value")
        if name in options:
            raise SpecError(f"spec {text!r}: option {name!r} is given twice")
        options[name] = _decoded(text, value)
    return options


def _decoded(text: str, value: str) -> str:
    try:
        decoded = unquote(value, errors="strict")
        decoded.encode()
    except UnicodeError as error:
        raise SpecError(f"spec {text!r}: {value!r} is not percent-encoded UTF-8") from error
    return decoded
