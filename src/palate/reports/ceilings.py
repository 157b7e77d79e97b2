"""Ceilings of accuracy: a table of an audit, a line of a screen, a bar on the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.construction import AuditSummary
from palate.contexts import shows
from palate.metrics import Ceilings
from palate.metrics.ceilings import OpenEnds
from palate.reports.contents import BenchmarkRuns
from palate.reports.names import Names, context_name
from palate.reports.numbers import NONE, Number, plain
from palate.reports.parts import Picture
from palate.reports.plots import ceiling_lines
from palate.reports.table import WIDTH, Table
from palate.runs import Run

MIRRORED = "B is ½ by design, as a couple's users chose oppositely; P needs repeats beyond couples."
UNSHARED = (
    "B is not identifiable: no pair has votes of two users, and rows that name no user are "
    "nobody's. Let two or more people, better five, vote on the same pairs."
)
UNREPEATED = (
    "P is not identifiable: nobody voted on a pair again, or too few did. Ask some users the same "
    "pairs once more; leave both rows in the file, or name the later choice in `chosen_again`."
)
CAPTURED = (
    "captured: (accuracy − B)/(P − B). Below 0, a better scorer that ignores the user would gain; "
    "∞ where taste may be worth nothing."
)


def ends(pair: OpenEnds | None) -> Number:
    """Return an interval without a point.

    >>> ends((0.7812, 0.85)), ends((0.5, 0.5)), ends((None, 0.2)), ends(None)
    ('0.781 to 0.850', '0.500', '−∞ to 0.200', '–')
    """
    if pair is None:
        return NONE
    low = "−∞" if pair[0] is None else plain(pair[0])
    high = "∞" if pair[1] is None else plain(pair[1])
    return Number(low if low == high else f"{low} to {high}", pair[0], *pair)


def ceiling_table(
    title: str, best: Ceilings, scorers: Sequence[tuple[str, float | None, OpenEnds | None]]
) -> Table:
    """Return the ceilings, and each scorer's accuracy on the same rows and what it captures."""
    rows = [
        ["without the user, B", ends(best.blind), NONE],
        ["with the user, P", ends(best.personal), NONE],
        ["taste is worth, P − B", ends(best.taste), NONE],
        *([name, plain(accuracy), ends(captured)] for name, accuracy, captured in scorers),
    ]
    notes = [*_notes(best), *[CAPTURED] * any(captured for *_, captured in scorers)]
    columns = ["", "accuracy [95 %]", "captured [95 %]"]
    return Table(title, columns, rows, notes, 1, width=WIDTH)


def audited_ceilings(summary: AuditSummary) -> Table:
    """Return the same of an audit."""
    scorers = [
        (f"{it.scorer}, {context_name(it.context)}", it.on_shared_pairs, it.captured)
        for it in summary.standings
    ]
    return ceiling_table("how good anybody could be", summary.ceilings, scorers)


def _notes(best: Ceilings) -> Iterator[str]:
    # What the ceilings are of, and what is needed where votes do not tell them.
    if best.note and not (best.n_pairs or best.n_repeats):
        yield f"{best.note}."
        return
    if best.blind == (0.5, 0.5):
        yield MIRRORED
    elif best.n_pairs or best.n_repeats:
        yield (
            f"Of {best.n_votes:,} votes on {best.n_pairs:,} pairs with votes of two users or more; "
            f"{best.n_repeats:,} times a user voted again."
        )
    if not best.n_pairs:
        yield UNSHARED
    if best.copies:
        why = f"{best.copies:,} rows equal another; name an id or a date in each, or drop them"
        yield f"P is not identifiable: {why}."
    elif not best.personal and best.blind != (0.5, 0.5) and not (best.note and best.n_repeats):
        yield UNREPEATED
    if best.note:
        yield f"{best.note}."


def blind_ceiling(runs: Sequence[Run]) -> Iterator[str]:
    """Yield how far accuracy could get without the user, where the votes of their rows tell it."""
    best = ceilings_of(runs)
    if best is not None and best.blind and best.blind[0] < best.blind[1]:
        yield (
            f"Without the user, the best accuracy lies within {ends(best.blind)} (95 %; "
            f"{best.n_pairs:,} pairs with votes of two users or more"
            f"{(best.note and f'; {best.note}') or ''})."
        )


def ceilings_of(runs: Sequence[Run]) -> Ceilings | None:
    """Return those of the rows of some runs; None of mirrored couples and of chosen votes.

    A run of borrowed users is passed over, since its rows name others than who voted.
    """
    some = (run for run in runs if shows(run.summary.context) != "borrowed")
    of = next((run.verdicts for run in some if not run.summary.agreed_of), None)
    return None if of is None or of.mirrored else of.ceilings


def ceiling_bar(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[Picture]:
    """Yield a bar from ½ over B to P, with each scorer on it, where votes tell B."""
    best = ceilings_of(benchmark.runs)
    if best is None or best.blind is None:
        return
    reached = [finding.run.verdicts.ceilings for finding in benchmark.findings]
    every = zip(names.findings(benchmark.findings), reached, strict=True)
    scorers = [(name, of.accuracy, of.captured) for name, of in every]
    title = f"How good anybody could be, {benchmark.name}"
    description = (
        "The bar goes from ½ over the ceiling without the user to the one with the user; where a "
        "colour is light, the ceiling lies there (95 %). A dot is a scorer."
    )
    dots = [(name, accuracy) for name, accuracy, _ in scorers if accuracy is not None]
    table = ceiling_table(title, best, scorers)
    drawn = ceiling_lines(dots, best.blind, best.personal)
    yield Picture(f"ceilings-{number}", title, description, table, drawn)
