"""Whether a run's journal holds the numbers that its rows do."""

from __future__ import annotations

from collections import defaultdict
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
    """Check that a row's margin is a difference of numbers that the journal holds for it.

    Their sign is not seen: lines name no response. None for scorers that make one number of
    several. Raises `RunError` for a line of another run.
    """
    lines: dict[str, Line] = {}
    for number, (_, line) in enumerate(located_lines(path), 1):
        if line.in_pass not in manifest.passes:
            raise RunError(f"{path}:{number}: of a pass that the manifest does not name")
        lines[line.id] = line  # a later one wins
    kind = Spec.parse(manifest.identity["scorer"]).kind
    if kind not in DIRECT or len(manifest.passes) > 1:
        return None
    asked: dict[str, set[float]] = defaultdict(set)

    def check(at: int, row: VerdictRow) -> str | None:
        del at
        line, shared = lines.get(row.id), asked[row.question_hash]
        values = {v for v in line.values if v is not None} if line else set()
        shared |= values
        if row.margin is None:
            return None
        if kind == "judge":
            side = {abs(order) for order in row.orders if order is not None}
            return None if side <= {abs(v) for v in values or shared} else wrong(row)
        # What an earlier row asks too stands in that row's line alone.
        both = combinations(values if len(values) == 2 else shared, 2)
        margins = {abs(margin_of(a, b)) for a, b in both} | ({0.0} if len(values) < 2 else set())
        return None if abs(row.margin) in margins else wrong(row)

    def wrong(row: VerdictRow) -> str:
        return f"margin {row.margin}; {path.name} holds other numbers"

    return check
