"""build_pairs(source, output, options) → a data set of pairs, and what was dropped and why.

A stage is a function of the drafts that the stage before kept: it returns an outcome for each, and
`PairMaker.through` counts them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from math import ceil
from pathlib import Path
from typing import Any

from palate.answers import build_policy, shown_to_policy
from palate.benchmarks import Dataset
from palate.benchmarks.dataset import as_mirrored
from palate.construction.audit import audit, check_blind
from palate.construction.audit_records import Audit
from palate.construction.filter_validation import LEAST, without_user
from palate.construction.gap import NULL, NULL_GAPS, read_limit
from palate.construction.pair_records import (
    CARD,
    FILE,
    FOR_ONCE,
    MIRROR,
    PairDraft,
    PairsBuild,
    PairsOptions,
    PairsRow,
    PairsSummary,
    card_of,
    import_pyarrow,
    with_answers,
    write_pairs,
)
from palate.construction.pair_writing import parse_words, read_aspects, side_prompts, write_sides
from palate.construction.question_sources import QuestionSource, open_source
from palate.construction.rows import Dropped, Stage, StageCounts, hash_of_file
from palate.construction.stack_exchange import dump_files
from palate.construction.text_checks import hashes_of
from palate.data import files_of
from palate.errors import RunError, UsageError, writing
from palate.evaluation import Start, Work
from palate.files import write_whole
from palate.quality import RubricJudge, build_quality
from palate.records import Settings
from palate.runs import MANIFEST, SUMMARY, Manifest, locked
from palate.scorers import is_baseline
from palate.session import Session

DATASET = "dataset"
MOST_ASPECTS, TRIALS = 6, 3
"""Aspects that a reader is asked for; sorts of answers that a blind scorer is tried on."""
NO_OTHER, COUPLED = "no other user", "in a couple already"
AUDITED = ("adherence", "gap", "blind", "apart", "against")
"""Options that are the audit's."""
Outcomes = Iterable[PairDraft | Dropped]


def build_pairs(
    source: Path | str,
    output: Path | str,
    options: PairsOptions,
    *,
    root: Path | str | None = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    start: Start | None = None,
) -> PairsBuild:
    """Write pairs of a source's questions to `output/dataset`; return what was dropped.

    `output` is then a result of kind `pairs`. Replies and ratings are kept in the session's store,
    so that the same or a larger call asks nothing twice, and gives the same bytes. The runs of a
    blind scorer are kept under `root`. Without a pair that is kept there is no data set.

    Raises:
        DataError: for a source that cannot be read.
        UsageError: for options that do not fit, and an output that holds another build.
        EndpointError: where an endpoint did not answer; what came is kept.
    """
    import_pyarrow()
    source, output = Path(source), Path(output)
    maker = PairMaker(options, Work.of(session, settings, root, start=start))
    with ExitStack() as stack:
        drafts = maker.read(stack.enter_context(_opened(source, options)))
        # What is refused until here leaves no folder.
        manifest = stack.enter_context(_output_of(maker, source, output))
        drafts = maker.through("rubric", drafts, maker.read_rubrics(drafts, "question"))
        if maker.is_mirrored:
            drafts = maker.through("mirror rubric", drafts, maker.read_rubrics(drafts, "mirror"))
        drafts = maker.through("answers", drafts, maker.write_answers(drafts))
        audited = maker.audit(drafts, f"{output.resolve().name} as written")
        drafts = maker.through("checks", drafts, _audited(drafts, audited))
        return _finish(maker, drafts, audited, manifest, output)


def plan_pairs(
    source: Path | str,
    options: PairsOptions,
    *,
    session: Session | None = None,
    settings: Settings | None = None,
) -> dict[str, int]:
    """Return how often reader, writers and judge are asked at most; nothing is asked or written."""
    maker = PairMaker(options, Work.of(session, settings))
    with _opened(Path(source), options) as questions:
        return maker.most_calls(maker.read(questions))


def _opened(source: Path, options: PairsOptions) -> AbstractContextManager[QuestionSource]:
    ids, skip = options.keep_ids, options.skip_bad_rows
    return open_source(source, options.layout, keep_ids=ids, skip_bad_rows=skip)


class PairMaker:
    """The stages of a build, and the last state of each question up to `--limit`, in order.

    When it is made, all options are known to fit: nothing is asked before.
    """

    def __init__(self, options: PairsOptions, work: Work) -> None:
        options.check()
        if options.adherence:
            build_quality(options.adherence, work.session, work.settings)
            read_limit(options.gap)
        if options.blind:
            check_blind(work.scorer(options.blind), options.blind, options.apart)
        self.options, self.work = options, work
        self.is_mirrored = options.rejected == MIRROR
        self.of = "couples" if self.is_mirrored else "pairs"
        self._words = parse_words(options.words)
        named = [options.reader] if options.reader else []
        built = [build_policy(n, work.session, work.settings) for n in (*named, *options.writers)]
        self._reader, self._writers = built[0] if named else None, built[len(named) :]
        self.fingerprints = tuple(policy.fingerprint for policy in built)
        self.stages: list[StageCounts] = []
        self.n_askers = 0
        self.drafts: dict[str, PairDraft] = {}

    def read(self, source: QuestionSource) -> list[PairDraft]:
        """Return the questions that are to become pairs, each with its mirror user's.

        Raises `UsageError` where mirror users are wanted and there is but one user, and for a
        question without a rubric that no reader reads.
        """
        limit, most, drafts = Stage("limit", "questions"), self.options.limit, []
        for place, question in enumerate(source.questions()):
            is_beyond = most is not None and place >= most
            if limit.goes_on(f"beyond --limit {most}" if is_beyond else None):
                drafts.append(PairDraft(question))
        self.n_askers = source.n_askers
        stages = source.stages if most is None else (*source.stages, limit)
        self.stages += [stage.counts for stage in stages]
        if self.is_mirrored and (n_read := len(drafts)):
            couples = self._with_partners(drafts, source)
            drafts = self.through("partner", drafts, couples, of="questions")
            if not drafts:
                raise UsageError(
                    f"--rejected mirror: none of {n_read:,} questions has another user beside its "
                    "own; bring more users, or choose --rejected violate"
                )
        unread = ((d, q) for d in drafts for q in d.questions if not q.gold.aspects)
        if self._reader is None and (first := next(unread, None)):
            draft, question = first
            raise UsageError(
                f"question {draft.question.id!r}: user {question.user_id!r} has no rubric_aspects "
                "for it; name a --reader"
            )
        return drafts

    def through(
        self, name: str, drafts: Sequence[PairDraft], outcomes: Outcomes, *, of: str | None = None
    ) -> list[PairDraft]:
        """Count a stage's outcome of each draft, and return what goes on."""
        stage, going_on = Stage(name, of or self.of), []
        for draft, outcome in zip(drafts, outcomes, strict=True):
            if isinstance(outcome, Dropped):
                stage.goes_on(outcome.reason)
                last = draft._replace(stage=name, reason=outcome.reason)
            else:
                stage.goes_on()
                going_on.append(last := outcome)
            self.drafts[draft.question.id] = last
        self.stages.append(stage.counts)
        return going_on

    def _with_partners(self, drafts: Iterable[PairDraft], source: QuestionSource) -> Outcomes:
        couples: set[tuple[frozenset[str], str]] = set()
        for draft in drafts:
            question = draft.question
            partner = source.partner(question, self.work.settings.seed)
            if partner is None:
                yield Dropped(NO_OTHER)
                continue
            mirror = partner.question
            couple = frozenset((question.user_id, mirror.user_id)), question.normal_key
            if couple in couples:
                yield Dropped(COUPLED)
                continue
            couples.add(couple)
            name = f"{question.id}-mirror-{mirror.user_id}"
            mirror = mirror.model_copy(update={"id": name})
            yield draft._replace(mirror=mirror, has_asked=partner.has_asked)

    def read_rubrics(self, drafts: Sequence[PairDraft], side: str) -> Outcomes:
        """Yield the drafts with what the user of a side expects, read where rows have no rubric.

        Raises `EndpointError` where an endpoint did not answer; what came is kept.
        """
        questions = [getattr(draft, side) for draft in drafts]
        unread = [question for question in questions if not question.gold.aspects]
        aspects_read: Iterator[Any] = iter(())
        if self._reader is not None and unread:
            progress = self.work.start(f"{self.options.reader}, {side} rubrics")
            most, store = self.options.attempts, self.work.session.store
            aspects_read = iter(read_aspects(self._reader, unread, most, store, progress))
        for draft, question in zip(drafts, questions, strict=True):
            aspects = question.gold.aspects or next(aspects_read)
            if isinstance(aspects, Dropped):
                yield aspects
            else:
                gold = question.gold.model_copy(update={"aspects": aspects})
                yield draft._replace(**{side: question.model_copy(update={"gold": gold})})

    def write_answers(self, drafts: Sequence[PairDraft]) -> Outcomes:
        """Yield the drafts with both answers; raises `EndpointError` as `read_rubrics` does."""
        rows = tuple(question for draft in drafts for question in draft.questions)
        context, seed = self.work.context(self.options.writer_context), self.work.settings.seed
        shown = shown_to_policy(context, Dataset("drafts", rows), seed)
        subjects = []
        for draft in drafts:
            chosen, *rejected = (
                (tuple(aspect.aspect for aspect in q.gold.aspects), shown(q) if shown else ())
                for q in draft.questions
            )
            prompts = side_prompts(draft.question.text, self._words, chosen, *rejected)
            subjects.append((draft.question.id, prompts))
        written = write_sides(
            self._writers,
            subjects,
            words=self._words,
            drafts=self.options.drafts,
            store=self.work.session.store,
            progress=self.work.start("answers") if subjects else None,
            seed=seed,
        )
        for draft, answers in zip(drafts, written, strict=True):
            yield answers if isinstance(answers, Dropped) else with_answers(draft, answers)

    def audit(self, drafts: Sequence[PairDraft], name: str) -> Audit | None:
        """Return the audit of all pairs that were written; None where there are none."""
        if not drafts:
            return None
        work, options = self.work, {name: getattr(self.options, name) for name in AUDITED}
        options |= {"root": work.root if self.options.blind else None, "start": work.start}
        options |= {"session": work.session, "settings": work.settings}
        return audit(_dataset(drafts, name), **options)

    def most_calls(self, drafts: Sequence[PairDraft]) -> dict[str, int]:
        """Return the calls by role; a sample is one call, and so is each order of two answers."""
        questions = [question for draft in drafts for question in draft.questions]
        aspects = [len(question.gold.aspects) for question in questions]
        options, judged = self.options, 0
        if options.blind and not is_baseline(options.blind):
            judged += 2 * (len(questions) + TRIALS * min(LEAST, len(questions)))
        if options.adherence and drafts:
            work = self.work
            measure = build_quality(options.adherence, work.session, work.settings)
            if isinstance(measure, RubricJudge):  # both answers, own and third rubrics, two posts
                draws = ceil(NULL_GAPS / len(drafts)) if options.gap.startswith(NULL) else 1
                most = max(n or MOST_ASPECTS for n in aspects)
                judged += 2 * len(questions) * (draws + 2) * most
        reader, writer = aspects.count(0) * options.attempts, 2 * len(drafts) * options.drafts
        return {"reader": reader, "writer": writer, "judge": judged}


def _audited(drafts: Sequence[PairDraft], audited: Audit | None) -> Outcomes:
    """Yield each draft, or the first check that one of its pairs fails."""
    rows = audited.rows if audited else ()
    failed = {row.id: row.reasons[0] for row in rows if row.reasons}
    for draft in drafts:
        reason = next((failed[pair.id] for pair in draft.pairs if pair.id in failed), None)
        yield Dropped(reason) if reason else draft


def _dataset(drafts: Iterable[PairDraft], name: str) -> Dataset:
    return as_mirrored(Dataset(name, tuple(pair for draft in drafts for pair in draft.pairs)))


@contextmanager
def _output_of(maker: PairMaker, source: Path, output: Path) -> Iterator[Manifest]:
    """Lock the output for this process; raises `RunError` where it holds something else."""
    options = maker.options
    files = dump_files(source) if options.layout == "stackexchange" else files_of(source)
    identity: dict[str, Any] = {"benchmark": output.resolve().name, "name": options.layout}
    identity |= options.model_dump(mode="json", exclude=FOR_ONCE)
    identity |= {"against": [path.name for path in options.against]}
    identity |= {"fingerprints": maker.fingerprints, "seed": maker.work.settings.seed}
    inputs = {path.name: hash_of_file(path) for path in files} | hashes_of(options.against)
    manifest = Manifest.of(PairsBuild.kind, identity, inputs=inputs)
    if output.is_file():
        raise RunError(f"-o {output}: is a file; expected a folder")
    visible = output.is_dir() and any(p.name[0] != "." for p in output.iterdir())
    if visible and not (output / MANIFEST).is_file():
        raise RunError(f"-o {output}: holds files, and no build of pairs; choose another folder")
    with locked(output):
        manifest.write(output)
        yield manifest


def _finish(
    maker: PairMaker,
    drafts: Sequence[PairDraft],
    audited: Audit | None,
    manifest: Manifest,
    output: Path,
) -> PairsBuild:
    """Write data set, card, rows and summary, in this order: without a summary it is unfinished."""
    name, folder, options = manifest.identity["benchmark"], output / DATASET, maker.options
    dataset = _dataset(drafts, name)
    pairs = dataset.pairs
    with writing(output):
        for path in (output / SUMMARY, folder / CARD, folder / FILE):
            path.unlink(missing_ok=True)
    file = write_pairs(folder, pairs) if pairs else None
    couples = [draft for draft in drafts if draft.mirror is not None]
    summary = PairsSummary(
        benchmark=name,
        layout=options.layout,
        rejected=options.rejected,
        reader=options.reader,
        writers=Counter(draft.writer for draft in drafts),
        pairs=len(pairs),
        couples=len(couples),
        users=len({pair.user_id for pair in pairs}),
        questions=len({pair.normal_key for pair in pairs}),
        askers=maker.n_askers,
        never_asked=sum(not draft.has_asked for draft in couples),
        stages=tuple(maker.stages),
        audit=audited and audited.summary,
        without_user=without_user(dataset, None, maker.work)[0] if pairs else (),
        dataset_hash=hash_of_file(file) if file else None,
    )
    if pairs:
        attributed = sum(pair.gold.attribution is not None for pair in pairs)
        with writing(folder):
            card = card_of(summary, manifest.identity, options.licence, attributed)
            write_whole(folder / CARD, card)
    rows = tuple(PairsRow.of(draft) for draft in maker.drafts.values())
    dropped = [draft for draft in maker.drafts.values() if draft.stage is not None]
    written = [draft for draft in dropped if draft.pairs]
    build = PairsBuild(summary, rows, output, (*drafts[:1], *(written or dropped)[:1]))
    build.save()
    return build
