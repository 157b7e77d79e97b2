"""An audit of a benchmark: its tables, and its part of a page."""

from __future__ import annotations

from collections.abc import Iterator

from palate.construction import Audit, AuditSummary
from palate.construction.checks.result import CheckCount, GapLimit
from palate.reports.names import context_name
from palate.reports.numbers import NONE, Number, count, figure, plain, with_interval
from palate.reports.page.names import Names
from palate.reports.page.parts import Text
from palate.reports.table import Table

WIDTH, MOST_ROWS, LONGEST = 100, 20, 60
ASKS = {
    "format": "an answer is empty, a refusal, or names its model",
    "quote": "evidence is neither in the narrative nor in a post",
    "parrot": "an answer shares 8 words in a row with the gold",
    "leak": "question, narrative or answer shares 13 words with a post",
    "later": "a post was not written before the question",
    "repeated": "the user's earlier row is nearly the same",
    "contaminated": "13 words are shared with another file",
    "gap": "the chosen answer does not meet the rubric better",
    "blind": "an answer is better for anybody",
}
FILTERS = {"blind": "blind", "gap": "gap", "rubric": "gap's rubrics"}
MIRRORED = (
    "mirrored couples are at ½ by law, whatever is blind to the user: length, style and any probe. "
    "Nothing is to be tested; the checks of rows tell."
)


def tables(result: Audit) -> list[Table]:
    """Return the checks of rows, the rows with a reason, sights, blind scorers and standings."""
    told = result.summary
    found = [_checks(told), _rows(result), _sights(told), _without_user(told), _standings(told)]
    return [table for table in found if table is not None]


def _checks(told: AuditSummary) -> Table:
    rows = [[each.name, ASKS[each.name], *_numbers(each)] for each in told.checks]
    couples = f", {told.couples:,} mirrored couples" if told.couples else ""
    whole = ", couples whole" if told.couples else ""
    notes = [
        f"{told.without_reason:,} rows are without a reason; {told.kept:,} would be kept{whole}."
    ]
    notes += [
        f"quote: {each.verbatim[0]:,} of {each.verbatim[1]:,} evidences are verbatim."
        for each in told.checks
        if each.verbatim and each.n_checked
    ]
    notes += [_limit(each) for each in told.gaps]
    notes += [
        f"{name} counts for nothing: {why}. What it fails keeps its place, and what it passes "
        "proves nothing."
        for name, why in told.unseen.items()
    ]
    needs = [f"{each.name} needs {each.needs}" for each in told.checks if each.needs]
    notes += [f"–: {'; '.join(needs)}."] if needs else []
    title = f"audit of {told.benchmark}: {told.rows:,} rows{couples}"
    columns = ["check", "a row fails where", "checked", "failed"]
    return Table(title, columns, rows, notes, 2, width=WIDTH)


def _numbers(check: CheckCount) -> list[Number]:
    if not check.n_checked:
        return [NONE, NONE]
    failed = count(check.n_failed)
    return [count(check.n_checked), failed if check.counts else Number(f"({failed})", failed.value)]


def _limit(gap: GapLimit) -> str:
    if gap.limit is None:
        return f"gap: no third users for {gap.n:,} {gap.of}, so there is nothing to compare with."
    null = f", against {gap.n_null:,} gaps under third users' rubrics" if gap.n_null else ""
    mean = f" (mean {plain(gap.mean, signed=True)})" if gap.mean is not None else ""
    return f"gap: {gap.n_above:,} of {gap.n:,} {gap.of} are above {plain(gap.limit)}{mean}{null}."


def _rows(result: Audit) -> Table | None:
    failed = [row for row in result.rows if row.reasons]
    if not failed:
        return None
    rows = []
    for row in failed[:MOST_ROWS]:
        why = "; ".join(f"{name}: {row.details[name]}" for name in row.reasons)
        rows.append([row.id, why if len(why) <= LONGEST else f"{why[:LONGEST]}…"])
    more = len(failed) - len(rows)
    notes = [f"{more:,} more; every row and reason is in rows.jsonl."] if more else []
    return Table("rows with a reason", ["row", "why"], rows, notes, 2, width=WIDTH)


def _sights(told: AuditSummary) -> Table | None:
    rows = [
        [
            FILTERS[each.filter],
            each.sees,
            Number(f"{each.won:,} of {each.n:,}", each.won),
            with_interval(each.won / each.n if each.n else None, each.low, each.high),
            each.finding,
        ]
        for each in told.sights
    ]
    names = {"blind": told.blind, "gap": told.adherence}
    notes = [
        *(f"{filter_name} is {spec}." for filter_name, spec in names.items() if spec),
        "Ties are lost. shown: the lower end of the Wilson interval is above ½.",
    ]
    columns = ["filter", "prefers its text to", "won", "share [95 %]", "finding"]
    return Table("can they see?", columns, rows, notes, 2, width=WIDTH) if rows else None


def _without_user(told: AuditSummary) -> Table:
    if told.mirrored:
        return Table("without the user", [], [], [MIRRORED], width=WIDTH)
    rows = [
        [each.scorer, figure(each.accuracy), count(each.accuracy.n), each.words]
        for each in told.without_user
    ]
    notes = [
        "shown: at ½, within 0.05, by two one-sided tests. refuted: the interval lies beyond. "
        "Clustered by user and question; the probe is fitted on the other questions."
    ]
    columns = ["scorer", "accuracy [95 %]", "rows", "at ½?"]
    return Table("without the user", columns, rows, notes, width=WIDTH)


def _standings(told: AuditSummary) -> Table | None:
    rows = [
        [
            each.scorer,
            context_name(each.context),
            plain(None if each.nothing is None else each.nothing.value),
            plain(each.accuracy.value),
            plain(None if each.stranger is None else each.stranger.value),
            figure(each.identity, signed=True),
            each.finding,
        ]
        for each in told.standings
    ]
    columns = ["scorer", "shown", "nothing", "theirs", "a stranger's", "identity [95 %]", "finding"]
    return Table("where scorers stand", columns, rows, (), 2, width=WIDTH) if rows else None


def parts(result: Audit, names: Names, number: int) -> Iterator[object]:
    """Yield the tables under a heading."""
    yield Text("What an audit of the pairs says", "h3")
    yield from (names.table(table) for table in tables(result))
