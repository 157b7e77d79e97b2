"""Audits, and builds of pairs and of users' own texts, as tables and on a page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from palate.construction import Audit, AuditSummary, OwnTextBuild
from palate.construction.filter_validation import LEAST, PROBE, WARN_ABOVE
from palate.construction.own_text import USELESS
from palate.construction.pair_records import PairDraft, PairsBuild
from palate.records import Question
from palate.reports.ceilings import audited_ceilings
from palate.reports.names import Names, context_name
from palate.reports.numbers import NONE, Number, count, figure, plain, point, with_interval
from palate.reports.parts import Text, section
from palate.reports.table import WIDTH, Table, breaks_between
from palate.words import shortened

MOST_ROWS, LONGEST = 20, 75
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


def audit_tables(result: Audit) -> list[Table]:
    """Return the checks, the rows with a reason, sights, blind scorers, ceilings and standings."""
    summary = result.summary
    mirrored = Table("without the user", notes=[MIRRORED], width=WIDTH)
    return [
        _checks(summary),
        *_rows(result),
        *_sights(summary),
        *([mirrored] if summary.mirrored else _without_user(summary)),
        audited_ceilings(summary),
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
    whole = ", couples whole" * bool(summary.couples)
    sizes = {"rows": summary.rows, "mirrored couples": summary.couples}
    sizes |= {"undecided rows left out": summary.undecided}
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
        *(
            "repeated: a vote made again counts for P too in `chosen_again` of its user's row."
            for check in summary.checks
            if check.name == "repeated" and check.n_failed and summary.ceilings.n_repeats
        ),
        *([f"–: {'; '.join(needs)}."] if needs else []),
    ]
    size = ", ".join(f"{n:,} {what}" for what, n in sizes.items() if n)
    title = f"audit of {summary.benchmark}: {size}"
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
    filters = ("blind", summary.blind), ("gap", summary.adherence)
    notes = [f"{name}: {spec}." for name, spec in filters if spec]
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


# Without rows: their ids and posts are the data's own.
audit_parts = section(
    "What an audit of the pairs says", lambda result: audit_tables(replace(result, rows=()))
)
COUNTS = ("pairs", "couples", "users", "questions")


def pairs_tables(build: PairsBuild) -> list[Table]:
    """Return yields, what every stage kept, and what was dropped and why."""
    summary = build.summary
    yields = [[count(getattr(summary, field)) for field in COUNTS]]
    stages = [
        [each.stage, each.of, *map(count, (each.n_read, each.n_kept, each.n_read - each.n_kept))]
        for each in summary.stages
    ]
    dropped = (((stage.stage, stage.of), stage.dropped) for stage in summary.stages)
    audited = [] if summary.audit is None else audit_tables(Audit(summary.audit, ()))
    return [
        Table(f"pairs {summary.benchmark}", [*COUNTS], yields, [*_notes(build)], 0),
        Table("stages", ["stage", "of", "read", "kept", "dropped"], stages, (), 2),
        _reasons("dropped", ["stage", "of"], dropped),
        *audited,
    ]


def _reasons(
    title: str,
    columns: Sequence[str],
    counts: Iterable[tuple[Sequence[str], Mapping[str, int]]],
    notes: Sequence[str] = (),
) -> Table:
    # Why some of each was left out, and how many.
    rows = [[*of, why, count(n)] for of, reasons in counts for why, n in reasons.items()]
    breaks = breaks_between(what for what, *_ in rows)
    return Table(title, [*columns, "why", "number"], rows, notes, len(columns) + 1, breaks)


def _notes(build: PairsBuild) -> Iterator[str]:
    summary = build.summary
    for writer, n in summary.writers.items():
        yield f"{writer} wrote the answers of {n:,} {summary.stages[-1].of}."
    yield f"The source has questions of {summary.askers:,} users."
    if summary.never_asked:
        yield (
            f"In {summary.never_asked:,} of {summary.couples:,} couples the mirror user never "
            "asked: what they expect was read from their posts."
        )
    for finding in summary.without_user:
        yield f"{finding.scorer} without the user: {figure(finding.accuracy)}; {finding.words}."
    yield "Checked by people: no."


def examples(build: PairsBuild) -> Iterator[Table]:
    """Yield a kept pair and a dropped one with all their texts, where there are."""
    for draft in build.examples:
        dropped = draft.stage is not None
        title = f"a dropped pair ({draft.stage}: {draft.reason})" if dropped else "a kept pair"
        yield Table(title, ["", "text"], [*_texts(draft)], (), 2, prose=True)


def _texts(draft: PairDraft) -> Iterator[tuple[str, str]]:
    question, *mirror = draft.questions
    yield "id", question.id
    yield "question", question.text
    yield "narrative", question.gold.narrative or "–"
    yield "user", _expects(question)
    for other in mirror:
        yield "mirror user", _expects(other)
    for pair in draft.pairs[:1]:
        yield "chosen", pair.chosen
        yield "rejected", pair.rejected


def _expects(question: Question) -> str:
    aspects = "; ".join(aspect.aspect for aspect in question.gold.aspects)
    return f"{question.user_id}: {aspects or 'no rubric'}"


pairs_parts = section("How the pairs were made", pairs_tables)


def own_text_tables(build: OwnTextBuild) -> list[Table]:
    """Return yields, what was left out and why, and how often blind scorers are right."""
    summary = build.summary
    splits = [[split, *map(count, counts.values())] for split, counts in summary.rows.items()]
    blind = [[name, figure(each), count(each.n)] for name, each in summary.blind_scorers.items()]
    columns = ["split", "rows", "users", "inputs", "against authors", "against the model"]
    undated, notes = [], _unused_model(build)
    if n := summary.undated_profile_items:
        undated.append(
            f"{n:,} profile items stay whose order is not known: they or their questions "
            "have no date."
        )
    if n := summary.foreign_edits:
        edited = f"{n:,} chosen test texts were last edited by somebody else: --own-edits"
        notes.append(f"{edited} leaves them out.")
    left_out = (((what,), counts) for what, counts in build.dropped.items())
    style = f"{PROBE}: counts of style, fitted on the other questions."
    about = "blind scorers on the test rows"
    return [
        Table(f"own-text benchmark {summary.benchmark}", columns, splits, notes),
        _reasons("left out", ["what"], left_out, undated),
        Table(about, ["scorer", "accuracy [95 %]", "rows"], blind, [style]),
    ]


def _unused_model(build: OwnTextBuild) -> list[str]:
    policy = build.summary.policy
    if policy is None or any(counts["against_model"] for counts in build.rows.values()):
        return []
    if any(reason in USELESS for counts in build.dropped.values() for reason in counts):
        return []
    return [f"{policy} was not used: every row has another author's text."]


def own_text_warning(build: OwnTextBuild) -> str | None:
    """Return what to say where blind scorers are right too often; None where they are not."""
    if not build.given_away:
        return None
    blind = build.summary.blind_scorers
    names = ", ".join(f"{name} {blind[name].value:.3f}" for name in build.given_away)
    model = build.rows["test"]["against_model"]
    why = "; human against model is no taste" if model else ""
    return f"warning: blind scorers are right above {WARN_ABOVE} ({names}){why}"


def own_text_parts(build: OwnTextBuild, names: Names, number: int) -> Iterator[object]:
    """Yield the tables, and the warning where there is one."""
    yield Text("How the benchmark was built", "h3")
    yield from (names.table(table) for table in own_text_tables(build))
    if text := own_text_warning(build):
        yield Text(text)
