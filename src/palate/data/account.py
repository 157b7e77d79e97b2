"""The account of a file: each column, row and person, and what was made one."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, ClassVar

from pydantic import ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema

from palate.errors import DataError
from palate.records import Question

LOG = logging.getLogger("palate")
KEPT = "kept, never shown"
PRINTED = 4
"""Surprises that are printed; `palate data` prints all."""
OF_ONE_ROW = re.compile(r"(?<!\w)(['\"]).*?(?:\1(?!\w)|\Z)|\b\d[\w.,]*|[\w.-]*[/\\]\S*", re.DOTALL)
"""Cells, numbers and paths in what is wrong with a row."""


@dataclass
class Account:
    """What palate made of a source's columns, rows and people, without an id or a path."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")
    source: Annotated[SkipJsonSchema[str], Field(exclude=True)] = field(default="", compare=False)
    layout: str = "contract"
    columns: dict[str, str] = field(default_factory=dict)
    """The source's column → what it is read as."""
    rows: int = 0
    """Rows that were read, of whatever split; a vote among several responses may be several."""
    users: int = 0
    with_posts: int = 0
    """Users of whom there are posts."""
    bad_rows: Counter[str] = field(default_factory=Counter)
    """Rows left out that break the row contract, by field and problem."""
    left_out: Counter[str] = field(default_factory=Counter)
    """What else is left out, by reason."""
    merged: Counter[str] = field(default_factory=Counter)
    """What was made one, or is there twice: how often."""
    lines: list[str] = field(default_factory=list)
    """What else whoever reads the numbers must know."""
    examples: Annotated[SkipJsonSchema[dict[str, str]], Field(exclude=True)] = field(
        default_factory=dict, compare=False
    )
    """Ids and places, by line or reason: they are printed, and not kept."""

    def count(self, rows: Sequence[Question], bad: Sequence[DataError] = ()) -> None:
        """Take how many rows and users there are, and the bad rows without their cells."""
        self.rows, self.users = len(rows), len({row.user_id for row in rows})
        self.with_posts = len({row.user_id for row in rows if row.profile})
        named = (f"{error.field or 'row'}: {OF_ONE_ROW.sub('…', error.problem)}" for error in bad)
        self.bad_rows.update(named)

    def leave_out(self, reason: str, rows: int = 1) -> None:
        """Count rows that are left out."""
        self.left_out[reason] += rows

    def merge(self, what: str, times: int = 1, example: str = "") -> None:
        """Count what was made one."""
        self.merged[what] += times
        self.examples.setdefault(what, example)

    def say(self, line: str, example: str = "") -> None:
        """Take a line, once."""
        if line not in self.lines:
            self.lines.append(line)
        self.examples.setdefault(line, example)

    def add(self, part: Account) -> None:
        """Take what was made of another part of the same data."""
        for name in ("rows", "users", "with_posts", "bad_rows", "left_out", "merged"):
            setattr(self, name, getattr(self, name) + getattr(part, name))
        self.columns, self.examples = self.columns | part.columns, self.examples | part.examples
        self.lines += [line for line in part.lines if line not in self.lines]

    def surprises(self) -> list[str]:
        """Return all that a reader would not expect, a line each.

        >>> account = Account("votes.csv")
        >>> account.leave_out("the header once more")
        >>> account.merge("equal votes of one person", 2, "the first: row 7")
        >>> account.surprises()[1]
        '2: equal votes of one person (the first: row 7)'
        """
        lines = {line: line for line in self.lines}
        for reason, n in self.left_out.items():
            lines[reason] = f"{n:,} row{'s' * (n > 1)} left out: {reason}"
        lines |= {what: f"{n:,}: {what}" for what, n in self.merged.items()}
        of_lines = ((line, self.examples.get(key)) for key, line in lines.items())
        return [f"{line} ({example})" if example else line for line, example in of_lines]

    def facts(self) -> dict[str, str]:
        """Return in words what was made of the data, by what it is about; the surprises last.

        >>> Account(columns={"prompt": "question", "age": KEPT}, rows=2, users=1).facts()
        {'layout': 'contract', 'read': 'question = prompt', 'kept, never shown': 'age', \
'rows': '2', 'users': '1, 0 with posts'}
        """
        read = [
            name if name == use else f"{use} = {name}"
            for name, use in self.columns.items()
            if use != KEPT
        ]
        bad = [f"{n:,}: {reason}" for reason, n in self.bad_rows.items()]
        facts = {
            "layout": self.layout,
            "read": ", ".join(read),
            KEPT: ", ".join(self.unread),
            "rows": f"{self.rows:,}",
            "users": f"{self.users:,}, {self.with_posts:,} with posts",
            "bad rows, left out": "; ".join(bad),
            "beside": "; ".join(replace(self, examples={}).surprises()),
        }
        return {about: text for about, text in facts.items() if text}

    @property
    def unread(self) -> list[str]:
        """Columns that nothing was read from."""
        return [name for name, use in self.columns.items() if use == KEPT]

    def warn(self) -> None:
        """Log the first surprises, and how many more there are."""
        lines = self.surprises()
        for line in lines[:PRINTED]:
            LOG.warning("%s: %s", self.source, line)
        if len(lines) > PRINTED:
            more = len(lines) - PRINTED
            LOG.warning("%s: %d more such lines (palate data %s)", self.source, more, self.source)
