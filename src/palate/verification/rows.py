"""Rows of a run, read line by line: against themselves and the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from palate.benchmarks import Dataset
from palate.errors import RunError, first_line
from palate.evaluation import BoundScorer, Work, row_of
from palate.records import Judgement, Outcome, Scores, Settings, Verdict, margin_of
from palate.records.record import problem_of
from palate.runs import VerdictRow

Check = Callable[[int, VerdictRow], str | None]
"""From a row's place and the row to what is wrong with it, if anything is."""


def checked_rows(path: Path, checks: Sequence[Check], problems: list[str]) -> Iterator[VerdictRow]:
    """Yield the rows, each id once; what is wrong goes into `problems`, by line.

    Raises `RunError` where there is no such file.
    """
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
        del place
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


def by_data(pairs: Dataset, seed: int) -> Check:
    """Check that a row says what the data say of the pair in its place."""
    names = [pair.id for pair in pairs.pairs]
    # What a row says of its pair is the same whatever scores it.
    job = BoundScorer.of("longest", pairs, "none", Work.of(settings=Settings(seed=seed)))

    def check(place: int, row: VerdictRow) -> str | None:
        if place >= len(names) or row.id != names[place]:
            return (
                f"the data have {names[place]!r} here" if place < len(names) else "not in the data"
            )
        scores = row.ratings.scores if row.ratings else (None, None)
        in_order = Scores(values=scores[:: 1 if job.rows.chosen_position(place) == 0 else -1])
        other = pairs.mirror_rows[place]
        mirror_of = names[other] if other >= 0 else None
        expected = row_of(job, place, _verdict_in(row), in_order, mirror_of)
        for name in VerdictRow.model_fields.keys() - {"own_words"}:
            if getattr(row, name) != getattr(expected, name):
                return f"{name} {getattr(row, name)!r}; the data have {getattr(expected, name)!r}"
        return None

    return check


def _verdict_in(row: VerdictRow) -> Verdict:
    return Verdict(**{name: getattr(row, name) for name in Verdict.model_fields})
