"""Rows of a run, read line by line: against themselves, the data and the journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from pathlib import Path

from palate.benchmarks import Dataset
from palate.contexts import NOTHING, shows
from palate.errors import RunError, first_line
from palate.evaluation import BoundScorer, Work, row_of
from palate.records import Judgement, Outcome, Scores, Settings, Verdict, margin_of, problem_of
from palate.runs import Line, Manifest, VerdictRow, located_lines
from palate.specs import Spec

DIRECT = frozenset(
    {"random", "longest", "shortest", "similarity", "likelihood", "rating", "classifier", "judge"}
)
"""Scorers whose number for a response is the one in the journal."""
Check = Callable[[int, VerdictRow], str | None]
"""From a row's place and the row to what is wrong with it, if anything is."""


def checked_rows(path: Path, checks: Sequence[Check], problems: list[str]) -> Iterator[VerdictRow]:
    """Yield rows, each id once; wrong lines go into `problems`. Raises `RunError` for no file."""
    lines: dict[str, int] = {}
    try:
        file = path.open("rb")
    except OSError as error:
        raise RunError(f"{path}: {first_line(error)}") from error
    with file:
        for number, raw in enumerate(file, 1):
            try:
                row = VerdictRow.model_validate_json(raw)
            except ValueError as error:
                problems.append(f"{path}:{number}: no row ({problem_of(error)})")
                continue
            where = f"{path}:{number}: row {row.id!r}: "
            if lines.setdefault(row.id, number) < number:
                problems.append(f"{where}stands in line {lines[row.id]} already")
                continue
            problems += [f"{where}{wrong}" for check in checks if (wrong := check(number - 1, row))]
            yield row


def by_numbers(protocol: str) -> Check:
    """Check that a row's verdict follows from its margin, orders, share and scores."""

    def check(place: int, row: VerdictRow) -> str | None:
        verdict = Verdict(outcome=Outcome.UNSCORED, reason=row.reason)
        if row.share is not None:
            verdict = Verdict.of_share(row.share)
        elif row.margin is not None:
            verdict = Judgement(margin=row.margin, orders=row.orders).verdict(0)
        if protocol == "paper" and verdict.outcome is Outcome.TIE:
            verdict = verdict.model_copy(update={"outcome": Outcome.REJECTED})
        if _verdict_in(row) != verdict or (row.outcome is Outcome.UNSCORED) != bool(row.reason):
            return f"outcome {row.outcome}; its numbers give {verdict.outcome}"
        orders = [order for order in row.orders if order is not None]
        if orders and row.margin != sum(orders) / len(orders):
            return f"margin {row.margin}, which is no mean of its orders"
        first, second = row.ratings.scores if row.ratings else (None, None)
        rated = first is not None and second is not None and row.margin is not None
        if rated and row.margin != margin_of(first or 0.0, second or 0.0):
            return f"margin {row.margin}, which is no difference of its scores"
        return None

    return check


def by_data(pairs: Dataset, seed: int, context: str) -> Check:
    """Check that a row says what the data say of the pair in its place."""
    names = [pair.id for pair in pairs.pairs]
    # What a row says of its pair is the same whatever scores it, and is shown of its own user.
    context = context if shows(context) == "borrowed" else NOTHING
    job = BoundScorer.of("longest", pairs, context, Work.of(settings=Settings(seed=seed)))

    def check(place: int, row: VerdictRow) -> str | None:
        if place >= len(names) or row.id != names[place]:
            return (
                f"the data have {names[place]!r} here" if place < len(names) else "not in the data"
            )
        scores = row.ratings.scores if row.ratings else (None, None)
        in_order = Scores(values=scores[:: 1 if job.rows.chosen_position(place) == 0 else -1])
        expected = row_of(job, place, _verdict_in(row), in_order)
        for name in VerdictRow.model_fields.keys() - {"own_words"}:
            if getattr(row, name) != getattr(expected, name):
                return f"{name} {getattr(row, name)!r}; the data have {getattr(expected, name)!r}"
        return None

    return check


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

    def check(place: int, row: VerdictRow) -> str | None:
        if row.margin is None or row.id not in lines:
            return None
        values = [value for value in lines[row.id].values if value is not None]
        if kind == "judge":
            same = [abs(o) for o in row.orders if o is not None] == [abs(v) for v in values]
        else:  # of a response that an earlier row has too the number stands in that row's line
            margins = {abs(margin_of(a, b)) for a, b in combinations(values, 2)}
            same = abs(row.margin) in margins or len(values) < 2
        return None if same else f"margin {row.margin}; {path.name} holds other numbers"

    return check


def _verdict_in(row: VerdictRow) -> Verdict:
    return Verdict(**{name: getattr(row, name) for name in Verdict.model_fields})
