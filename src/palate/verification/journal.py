"""Whether a run's journal holds the numbers that its rows do."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

from palate.errors import RunError
from palate.records import margin_of
from palate.runs import Line, Manifest, VerdictRow, located_lines
from palate.specs import Spec
from palate.verification.rows import Check

DIRECT = frozenset(
    {"random", "longest", "shortest", "similarity", "likelihood", "rating", "classifier", "judge"}
)
"""Scorers whose number for a response is the one in the journal."""


def by_journal(path: Path, manifest: Manifest) -> Check | None:
    """Check that a row's margin is a difference of the numbers in its line of the journal.

    Its sign is not seen, as lines name no response, and neither are rows without a line of their
    own. None for a scorer that makes one number of several. Raises `RunError` for another run's
    line.
    """
    lines: dict[str, Line] = {}
    for number, (_, line) in enumerate(located_lines(path), 1):
        if line.in_pass not in manifest.passes:
            raise RunError(f"{path}:{number}: of a pass that the manifest does not name")
        lines[line.id] = line  # a later one wins
    kind = Spec.parse(manifest.identity["scorer"]).kind
    if kind not in DIRECT or len(manifest.passes) > 1:
        return None

    def check(at: int, row: VerdictRow) -> str | None:
        del at
        line = lines.get(row.id)
        if row.margin is None or line is None:
            return None
        values = [value for value in line.values if value is not None]
        if kind == "judge":
            same = [abs(o) for o in row.orders if o is not None] == [abs(v) for v in values]
        else:  # of a response that an earlier row has too the number stands in that row's line
            margins = {abs(margin_of(a, b)) for a, b in combinations(values, 2)}
            same = abs(row.margin) in margins or len(values) < 2
        return None if same else f"margin {row.margin}; {path.name} holds other numbers"

    return check
