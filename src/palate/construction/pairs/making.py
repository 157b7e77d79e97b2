"""From a source's questions to pairs: partner, rubric, answers, checks, each a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from palate.answers import build_policy, shown_to_policy
from palate.benchmarks import Dataset
from palate.benchmarks.dataset import as_mirrored
from palate.construction.checks import Audit, audit
from palate.construction.pairs.options import MIRROR, PairsOptions
from palate.construction.pairs.reader import ReaderSubject, read_aspects
from palate.construction.pairs.result import PairDraft, PairsRow
from palate.construction.pairs.writer import WriterSubject, WrittenPair, write_sides
from palate.construction.sources import QuestionSource
from palate.construction.stage import Dropped, Stage, StageCounts
from palate.data.rows import read_question
from palate.errors import DataError, UsageError
from palate.evaluation import Work
from palate.records import Gold, Part, PreferencePair, Question

NO_OTHER, COUPLED = "no other user", "in a couple already"


class PairMaker:
    """Takes questions to pairs; each stage reads what the one before kept."""

    def __init__(self, options: PairsOptions, work: Work) -> None:
        self._options, self._work = options, work
        session, settings = work.session, work.settings
        self._mirrored = options.rejected == MIRROR
        self._reader = options.reader and build_policy(options.reader, session, settings)
        self._writers = [build_policy(spec, session, settings) for spec in options.writers]
        self.stages: list[StageCounts] = []
        self.rows: dict[str, PairsRow] = {}
        """What became of each question, in the source's order."""
        self.dropped: PairDraft | None = None
        """The one that came furthest of those that were dropped."""

    @property
    def fingerprints(self) -> dict[str, Any]:
        """Hashes of the models that read and write."""
        reader = self._reader and self._reader.fingerprint
        return {"reader": reader, "writers": [writer.fingerprint for writer in self._writers]}

    def draft(self, source: QuestionSource) -> list[PairDraft]:
        """Return the questions that are to become pairs, each with its mirror user's."""
        drafts = [PairDraft(question) for question in source.questions()]
        self.stages += [stage.counts for stage in source.stages]
        if (most := self._options.limit) is not None:
            numbered = dict(zip(map(id, drafts), range(len(drafts)), strict=True))
            beyond = f"beyond --limit {most}"
            limit: Stage[PairDraft, PairDraft] = Stage.by_reason(
                "limit", "questions", lambda draft: beyond if numbered[id(draft)] >= most else None
            )
            drafts = self._through(limit, drafts)
        if self._mirrored:
            partners = self._through(self._partners(source), drafts)
            if drafts and not partners:
                raise UsageError("--rejected mirror: no question has another user beside its own")
            drafts = partners
        return drafts

    def most_calls(self, drafts: Sequence[PairDraft]) -> dict[str, int]:
        """Return how often each role is asked at most."""
        lacking = sum(not question.gold.aspects for question in _questions(drafts))
        return {
            "reader": lacking * self._options.attempts,
            "writer": 2 * len(drafts) * self._options.drafts,
        }

    def pairs(self, drafts: list[PairDraft]) -> list[PairDraft]:
        """Return what is kept of drafts, with its pairs; raises what models and checks do."""
        of = "couples" if self._mirrored else "pairs"
        for name, part in (("rubric", "question"), ("rubric of the mirror user", "mirror")):
            if part == "question" or self._mirrored:
                drafts = self._through(Stage(name, of, self._rubrics(part)), drafts)
        drafts = self._through(Stage("answers", of, self._write), drafts)
        return self._through(Stage("checks", of, self._check), drafts)

    def audit(self, drafts: Iterable[PairDraft]) -> Audit:
        """Return the audit of these drafts' pairs."""
        pairs = tuple(pair for draft in drafts for pair in draft.pairs)
        given, work = self._options, self._work
        return audit(
            as_mirrored(Dataset("pairs", pairs)),
            adherence=given.adherence,
            gap=given.gap,
            blind=given.blind,
            apart=given.apart,
            against=given.against,
            root=work.root,
            session=work.session,
            settings=work.settings,
            start=work.start,
        )

    def _through(
        self, stage: Stage[PairDraft, PairDraft], drafts: Iterable[PairDraft]
    ) -> list[PairDraft]:
        going_on = []
        for draft, outcome in stage.outcomes(drafts):
            if isinstance(outcome, Dropped):
                self.rows[draft.question.id] = row_of(draft, stage.name, outcome.reason)
                dropped = draft._replace(reason=f"{stage.name}: {outcome.reason}")
                if self.dropped is None or dropped.depth > self.dropped.depth:
                    self.dropped = dropped
            else:
                going_on.append(outcome)
                self.rows[outcome.question.id] = row_of(outcome)
        self.stages.append(stage.counts)
        return going_on

    def _partners(self, source: QuestionSource) -> Stage[PairDraft, PairDraft]:
        couples: set[tuple[frozenset[str], str]] = set()

        def work(drafts: Iterator[PairDraft]) -> Iterator[PairDraft | Dropped]:
            for draft in drafts:
                question = draft.question
                partner = source.partner(question, self._work.settings.seed)
                if partner is None:
                    yield Dropped(NO_OTHER)
                    continue
                users = frozenset((question.user_id, partner.question.user_id))
                if (users, question.normal_key) in couples:
                    yield Dropped(COUPLED)
                    continue
                couples.add((users, question.normal_key))
                mirror = partner.question.model_copy(update={"id": f"{question.id}-mirror"})
                yield draft._replace(mirror=mirror, asked=partner.asked)

        return Stage("partner", "questions", work)

    def _rubrics(self, part: str) -> Callable[[Iterator[PairDraft]], Iterator[PairDraft | Dropped]]:
        def work(rows: Iterator[PairDraft]) -> Iterator[PairDraft | Dropped]:
            drafts = list(rows)
            questions: list[Question] = [getattr(draft, part) for draft in drafts]
            lacking = [question for question in questions if not question.gold.aspects]
            if lacking and self._reader is None:
                raise UsageError(
                    f"question {lacking[0].id!r} has no rubric_aspects; name a --reader"
                )
            read = iter(
                read_aspects(
                    self._reader,
                    [subject_of(question) for question in lacking],
                    self._options.attempts,
                    self._work.session.store,
                    self._work.start(f"{self._options.reader} reads of {part} users"),
                )
                if lacking
                else ()
            )
            for draft, question in zip(drafts, questions, strict=True):
                outcome = question.gold.aspects or next(read)
                if isinstance(outcome, Dropped):
                    yield outcome
                else:
                    gold = question.gold.model_copy(update={"aspects": outcome})
                    yield draft._replace(**{part: question.model_copy(update={"gold": gold})})

        return work
