"""An audit of a benchmark: its tables, and its part of a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from palate.construction import Audit, AuditSummary
from palate.construction.checks.sight import LEAST
from palate.reports.names import context_name
from palate.reports.numbers import NONE, Number, count, figure, plain, point, with_interval
from palate.reports.page.names import Names
from palate.reports.page.parts import Text
from palate.reports.table import Table
from palate.words import shortened

WIDTH, MOST_ROWS, LONGEST = 100, 20, 75
ASKS = {
    "format": "an answer is empty, a refusal, or names its model",
    "quote": "evidence is neither in the narrative nor in a post",
    "parrot": "an answer shares 8 words in a row with the gold",
    "leak": "question, narrative or answer shares 13 words with a post",
    "later": "a post was not written before the question",
    "repeated": "the user's earlier row is nearly the same",
    "contaminated": "13 words are shared with another file",
    "gap": "the chosen answer does not meet the rubric better",
    "blind": "one answer is better for anybody",
}
BLINDNESS = {
    "gap": "an answer is not shown to meet its own rubric better than a third user's",
    "blind": "it is not shown to prefer an answer to any twin",
}
MIRRORED = (
    "mirrored couples are at ½ by law, whatever is blind to the user: length, style and any probe. "
    "Nothing is to be tested; the checks of rows tell."
)
TESTED = (
    "shown: at ½, within 0.05, by two one-sided tests. refuted: the interval lies beyond. "
    "Clustered as in evaluate; probes are fitted on the other questions."
)


def tables(result: Audit) -> list[Table]:
    """Return the checks, the rows with a reason, sights, blind scorers and standings."""
    summary = result.summary
    mirrored = Table("without the user", [], [], [MIRRORED], width=WIDTH)
    return [
        _checks(summary),
        *_rows(result),
        *_sights(summary),
        *([mirrored] if summary.mirrored else _without_user(summary)),
        *_standings(summary),
    ]


def _checks(summary: AuditSummary) -> Table:
    rows = []
    for check in summary.checks:
        failed = count(check.n_failed)
        if check.name in summary.unseen:
            failed = Number(f"({failed})", check.n_failed)
        numbers = [count(check.n_checked), failed] if check.n_checked else [NONE, NONE]
        rows.append([check.name, ASKS[check.name], *numbers])
    couples, whole = "", ""
    if summary.couples:
        couples, whole = f", {summary.couples:,} mirrored couples", ", couples whole"
    needs = [f"{check.name} needs {check.needs}" for check in summary.checks if check.needs]
    notes = [
        f"{summary.without_reason:,} rows are without a reason; "
        f"{summary.n_kept:,} would be kept{whole}.",
        *(
            "quote: {:,} of {:,} evidences are verbatim.".format(*check.verbatim)
            for check in summary.checks
            if check.verbatim and check.n_checked
        ),
        *(
            f"gap: {each.n_above:,} of {each.n:,} {each.of} are above {plain(each.limit)}, against "
            f"{each.n_null:,} gaps under third users' rubrics."
            for each in summary.gaps
            if each.limit is not None
        ),
        *(f"{name} counts for nothing: {_blindness(summary, name)}." for name in summary.unseen),
        *([f"–: {'; '.join(needs)}."] if needs else []),
    ]
    title = f"audit of {summary.benchmark}: {summary.rows:,} rows{couples}"
    columns = ["check", "a row fails where", "checked", "failed"]
    return Table(title, columns, rows, notes, 2, width=WIDTH)


def _blindness(summary: AuditSummary, name: str) -> str:
    tried = max(sight.n for sight in summary.sights if sight.filter == name)
    return BLINDNESS[name] if tried >= LEAST else f"it was tried on {tried}, and {LEAST} are needed"


def _rows(result: Audit) -> Iterator[Table]:
    failed = [row for row in result.rows if row.reasons]
    why = ["; ".join(f"{name}: {row.details[name]}" for name in row.reasons) for row in failed]
    rows = [[row.id, shortened(text, LONGEST)] for row, text in zip(failed, why, strict=True)]
    more = f"{len(rows) - MOST_ROWS:,} more; " if len(rows) > MOST_ROWS else ""
    notes = [f"{more}rows.jsonl of the result has every row and its reasons in full."]
    if rows:
        yield Table("rows with a reason", ["row", "why"], rows[:MOST_ROWS], notes, 2, width=WIDTH)


def _sights(summary: AuditSummary) -> Iterator[Table]:
    rows = []
    for each in summary.sights:
        share = with_interval(each.won / each.n if each.n else None, each.low, each.high)
        won = Number(f"{each.won:,} of {each.n:,}", each.won)
        rows.append([each.filter, each.other, won, share, each.finding])
    notes = [
        f"{name}: {spec}."
        for name, spec in (("blind", summary.blind), ("gap", summary.adherence))
        if spec
    ]
    notes.append("Ties are lost. shown: the lower end of the 95 % Wilson interval is above ½.")
    columns = ["filter", "prefers the right text to", "won", "share [95 %]", "finding"]
    if rows:
        yield Table("can they see?", columns, rows, notes, 2, width=WIDTH)


def _without_user(summary: AuditSummary) -> Iterator[Table]:
    rows = [
        [each.scorer, figure(each.accuracy), count(each.accuracy.n), each.words]
        for each in summary.without_user
    ]
    columns = ["scorer", "accuracy [95 %]", "rows", "at ½?"]
    yield Table("without the user", columns, rows, [TESTED], width=WIDTH)


def _standings(summary: AuditSummary) -> Iterator[Table]:
    rows = []
    for each in summary.standings:
        identity = figure(each.identity, signed=True)
        shown = [each.scorer, context_name(each.context)]
        rows.append([*shown, *map(point, each.accuracy), identity, each.finding])
    columns = ["scorer", "shown", "nothing", "theirs", "a stranger's", "identity [95 %]", "finding"]
    if rows:
        yield Table("where scorers stand", columns, rows, (), 2, width=WIDTH)


def parts(result: Audit, names: Names, number: int) -> Iterator[object]:
    """Yield the tables under a heading, without rows: their ids and posts are the data's own."""
    yield Text("What an audit of the pairs says", "h3")
    yield from (names.table(table) for table in tables(replace(result, rows=())))
