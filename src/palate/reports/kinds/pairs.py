"""A build of pairs: its tables, a kept and a dropped pair in full, and its part of a page."""

from __future__ import annotations

from collections.abc import Iterator

from palate.construction import Audit
from palate.construction.pairs import PairsBuild
from palate.construction.pairs.drafts import PairDraft
from palate.records import Question
from palate.reports.kinds.audit import tables as audit_tables
from palate.reports.numbers import count, figure
from palate.reports.page.names import Names
from palate.reports.page.parts import Text
from palate.reports.table import Table, breaks_between

COUNTS = ("pairs", "couples", "users", "questions")


def tables(build: PairsBuild) -> list[Table]:
    """Return yields, what every stage kept, and what was dropped and why."""
    summary = build.summary
    yields = [[count(getattr(summary, field)) for field in COUNTS]]
    stages = [
        [each.stage, each.of, *map(count, (each.n_read, each.n_kept, each.n_read - each.n_kept))]
        for each in summary.stages
    ]
    dropped = [
        (stage.stage, stage.of, reason, count(n))
        for stage in summary.stages
        for reason, n in stage.dropped.items()
    ]
    audited = [] if summary.audit is None else audit_tables(Audit(summary.audit, ()))
    return [
        Table(f"pairs {summary.benchmark}", [*COUNTS], yields, [*_notes(build)], 0),
        Table("stages", ["stage", "of", "read", "kept", "dropped"], stages, (), 2),
        Table(
            "dropped",
            ["stage", "of", "why", "number"],
            dropped,
            (),
            3,
            breaks_between(stage for stage, *_ in dropped),
        ),
        *audited,
    ]


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


def parts(build: PairsBuild, names: Names, number: int) -> Iterator[object]:
    """Yield the tables of how the pairs were made."""
    yield Text("How the pairs were made", "h3")
    yield from (names.table(table) for table in tables(build))
