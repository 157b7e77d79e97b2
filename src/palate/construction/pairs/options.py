"""The options of `palate build pairs`, checked before anything is read or asked."""

from __future__ import annotations

import re
from pathlib import Path

from palate.construction.checks.pipeline import GAP
from palate.errors import UsageError
from palate.records import Record

MIRROR, VIOLATE = "mirror", "violate"
FOR_ONCE = {"limit", "licence"}
"""Options that make no other build: a larger call goes on in the same folder."""


class PairsOptions(Record):
    """Who reads and writes, and which pairs stay."""

    layout: str
    writers: tuple[str, ...]
    """Policies; the seed draws which of them writes a pair."""
    reader: str | None = None
    """The policy that reads what a user expects of an answer, where rows have no rubric."""
    attempts: int = 3
    """Most samples of the reader for one user and question."""
    rejected: str = MIRROR
    """`mirror`: what another user prefers; `violate`: an answer against the user's own rubric."""
    writer_context: str = "none"
    """`none`, or `profile:N`: whether writers are shown posts."""
    words: str = "70-100"
    drafts: int = 2
    """Samples of each answer, of which the two nearest in length stay."""
    adherence: str | None = None
    gap: str = GAP
    blind: str | None = None
    apart: float | None = None
    against: tuple[Path, ...] = ()
    keep_ids: bool = False
    skip_bad_rows: bool = False
    limit: int | None = None
    """Of the source's questions the first ones."""
    licence: str | None = None

    def check(self) -> None:
        """Raise `UsageError` for an option that cannot be."""
        if not self.writers:
            raise UsageError("--writer: who is to write the answers? Name a model")
        if self.rejected not in (MIRROR, VIOLATE):
            raise UsageError(f"--rejected {self.rejected}: expected {MIRROR} or {VIOLATE}")
        if self.adherence is None and self.gap != GAP:
            raise UsageError(f"--gap {self.gap}: a gap is of a measure; name one by --adherence")
        if self.blind is None and self.apart is not None:
            raise UsageError(f"--apart {self.apart:g}: it is of a scorer; name one by --blind")
        if not re.fullmatch(r"none|profile:[1-9]\d*", self.writer_context):
            raise UsageError(
                f"--writer-context {self.writer_context}: expected none or profile:N, as profile:10"
            )
        for name, least in (("attempts", 1), ("drafts", 1), ("limit", 1)):
            if (given := getattr(self, name)) is not None and given < least:
                raise UsageError(f"--{name} {given}: expected {least} or more")
