"""Names of people and models on the page: no user's id, no path."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from palate.comparison import Finding
from palate.errors import SpecError
from palate.html import printable
from palate.reports.names import context_name, short_names
from palate.reports.table import Table
from palate.runs import Run

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
        rows = [
            [self.public(cell) if type(cell) is str else cell for cell in row] for row in table.rows
        ]
        return replace(
            table,
            title=self.public(table.title),
            columns=[self.public(name) if type(name) is str else name for name in table.columns],
            rows=rows,
            notes=[self.public(note) for note in table.notes],
        )

    def document(self, value: Any) -> Any:
        """Return a JSON document without paths."""
        if isinstance(value, str):
            return self.public(value)
        if isinstance(value, dict):
            return {self.public(key): self.document(each) for key, each in value.items()}
        return [self.document(each) for each in value] if isinstance(value, list) else value


def names_of(runs: Iterable[Run], specs: Iterable[str], hub: Iterable[str]) -> Names:
    """Return names for these runs; `specs` are all that occur, `hub` models of a public hub."""
    runs = list(runs)
    users = sorted({user for run in runs for user in run.verdicts.users.tolist()})
    hub = set(hub)
    public = {spec: _without_paths(spec, hub) for spec in specs}
    public = dict(sorted(public.items(), key=lambda each: (-len(each[0]), each[0])))
    scorers = list(dict.fromkeys(run.summary.scorer for run in runs))
    try:
        short = short_names(scorers)
    except SpecError:  # an object's own name
        short = {scorer: scorer for scorer in scorers}
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
