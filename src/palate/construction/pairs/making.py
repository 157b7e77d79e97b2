"""From a source's questions to pairs: partner, rubrics, answers and checks, each a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import Any

from palate.answers import ShownParts, build_policy, shown_to_policy
from palate.benchmarks import Dataset
from palate.construction.pairs.drafts import PairDraft, subject_of, with_answers
from palate.construction.pairs.options import MIRROR, PairsOptions
from palate.construction.pairs.reader import read_aspects
from palate.construction.pairs.writer import WriterSubject, parse_words, write_sides
from palate.construction.sources import QuestionSource
from palate.construction.stage import Dropped, Stage, StageCounts
from palate.errors import UsageError
from palate.evaluation import Work
from palate.records import Question

NO_OTHER, COUPLED = "no other user", "in a couple already"
Outcomes = Callable[[Iterator[PairDraft]], Iterator[PairDraft | Dropped]]


class PairMaker:
    """Takes questions to pairs; each stage reads what the one before kept."""

    def __init__(self, options: PairsOptions, work: Work) -> None:
        self._options, self._work = options, work
        self._mirrored = options.rejected == MIRROR
        self.of = "couples" if self._mirrored else "pairs"
        self._words = parse_words(options.words)
        named = [options.reader] if options.reader else []
        built = [build_policy(n, work.session, work.settings) for n in (*named, *options.writers)]
        self._reader, self._writers = built[0] if named else None, built[len(named) :]
        self.fingerprints = tuple(policy.fingerprint for policy in built)
        self.stages: list[StageCounts] = []
        self.n_askers = 0
        self.drafts: dict[str, PairDraft] = {}
        """The last state of each question up to `--limit`, in the source's order."""

    def drafts_of(self, source: QuestionSource) -> list[PairDraft]:
        """Return the questions that are to become pairs, each with its mirror user's.

        Raises `UsageError` where mirror users are wanted and there is but one user.
        """
        drafts: Iterable[PairDraft] = map(PairDraft, source.questions())
        limits: list[Stage[PairDraft, PairDraft]] = []
        if (most := self._options.limit) is not None:
            places, beyond = count(), f"beyond --limit {most}"
            limits.append(
                Stage.by_reason(
                    "limit", "questions", lambda _: beyond if next(places) >= most else None
                )
            )
            drafts = limits[0].run(drafts)
        drafts = list(drafts)
        self.n_askers = source.n_askers
        self.stages += [stage.counts for stage in (*source.stages, *limits)]
        if self._mirrored and drafts:
            read = len(drafts)
            drafts = self._through(Stage("partner", "questions", self._partners(source)), drafts)
            if not drafts:
                raise UsageError(
                    f"--rejected mirror: none of {read:,} questions has another user beside its "
                    "own; bring more users, or choose --rejected violate"
                )
        self._refuse_unread(drafts)
        return drafts

    def written(self, drafts: Iterable[PairDraft]) -> list[PairDraft]:
        """Return the drafts for which both answers are written, with their pairs.

        Raises `EndpointError` where an endpoint did not answer; what came is kept.
        """
        drafts = self._through(Stage("rubric", self.of, self._rubrics("question")), drafts)
        if self._mirrored:
            drafts = self._through(Stage("mirror rubric", self.of, self._rubrics("mirror")), drafts)
        return self._through(Stage("answers", self.of, self._answers), drafts)

    def checked(
        self, drafts: Sequence[PairDraft], reasons: Sequence[str | None]
    ) -> list[PairDraft]:
        """Return the drafts without a reason to be dropped."""
        left = iter(reasons)
        return self._through(Stage.by_reason("checks", self.of, lambda _: next(left)), drafts)

    def _through(
        self, stage: Stage[PairDraft, PairDraft], drafts: Iterable[PairDraft]
    ) -> list[PairDraft]:
        going_on = []
        for draft, outcome in stage.outcomes(drafts):
            if isinstance(outcome, Dropped):
                last = draft._replace(stage=stage.name, reason=outcome.reason)
            else:
                last = outcome
                going_on.append(outcome)
            self.drafts[draft.question.id] = last
        self.stages.append(stage.counts)
        return going_on

    def _refuse_unread(self, drafts: Iterable[PairDraft]) -> None:
        unread = ((d, q) for d in drafts for q in d.questions if not q.gold.aspects)
        if self._reader is None and (first := next(unread, None)):
            draft, question = first
            raise UsageError(
                f"question {draft.question.id!r}: user {question.user_id!r} has no rubric_aspects "
                "for it; name a --reader"
            )

    def _partners(self, source: QuestionSource) -> Outcomes:
        couples: set[tuple[frozenset[str], str]] = set()

        def partner(drafts: Iterator[PairDraft]) -> Iterator[PairDraft | Dropped]:
            for draft in drafts:
                question = draft.question
                partner = source.partner(question, self._work.settings.seed)
                if partner is None:
                    yield Dropped(NO_OTHER)
                    continue
                mirror, key = partner.question, question.normal_key
                couple = frozenset((question.user_id, mirror.user_id)), key
                if couple in couples:
                    yield Dropped(COUPLED)
                    continue
                couples.add(couple)
                name = f"{question.id}-mirror-{mirror.user_id}"
                mirror = mirror.model_copy(update={"id": name})
                yield draft._replace(mirror=mirror, has_asked=partner.has_asked)

        return partner

    def _rubrics(self, side: str) -> Outcomes:
        def read(rows: Iterator[PairDraft]) -> Iterator[PairDraft | Dropped]:
            drafts = list(rows)
            questions: list[Question] = [getattr(draft, side) for draft in drafts]
            lacking = [question for question in questions if not question.gold.aspects]
            outcomes: Iterator[Any] = iter(())
            if self._reader is not None and lacking:
                subjects = [subject_of(question) for question in lacking]
                progress = self._work.start(f"{self._options.reader}, {side} rubrics")
                most, store = self._options.attempts, self._work.session.store
                outcomes = iter(read_aspects(self._reader, subjects, most, store, progress))
            for draft, lacked in zip(drafts, questions, strict=True):
                aspects = lacked.gold.aspects or next(outcomes)
                if isinstance(aspects, Dropped):
                    yield aspects
                else:
                    gold = lacked.gold.model_copy(update={"aspects": aspects})
                    read_question = lacked.model_copy(update={"gold": gold})
                    yield PairDraft(**{**draft._asdict(), side: read_question})

        return read

    def _answers(self, rows: Iterator[PairDraft]) -> Iterator[PairDraft | Dropped]:
        drafts = list(rows)
        shown = self._shown(drafts)
        sides = [_side(draft, shown) for draft in drafts]
        written = write_sides(
            self._writers,
            sides,
            words=self._words,
            drafts=self._options.drafts,
            store=self._work.session.store,
            progress=self._work.start("answers") if sides else None,
            seed=self._work.settings.seed,
        )
        for draft, answers in zip(drafts, written, strict=True):
            yield answers if isinstance(answers, Dropped) else with_answers(draft, answers)

    def _shown(self, drafts: Iterable[PairDraft]) -> ShownParts | None:
        rows = tuple(question for draft in drafts for question in draft.questions)
        context = self._work.context(self._options.writer_context)
        return shown_to_policy(context, Dataset("drafts", rows), self._work.settings.seed)


def _side(draft: PairDraft, shown: ShownParts | None) -> WriterSubject:
    titles = [tuple(a.aspect for a in q.gold.aspects) for q in draft.questions]
    parts = [shown(question) if shown else () for question in draft.questions]
    return WriterSubject(
        draft.question.id,
        draft.question.text,
        chosen_titles=titles[0],
        rejected_titles=titles[-1],
        chosen_parts=parts[0],
        rejected_parts=parts[-1],
        violate=draft.mirror is None,
    )
