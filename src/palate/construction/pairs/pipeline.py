"""build_pairs(source, output, options) → a data set of pairs, and what was dropped and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from palate.benchmarks import Dataset
from palate.benchmarks.dataset import as_mirrored
from palate.construction.checks import Audit, audit
from palate.construction.checks.blind import check_blind
from palate.construction.checks.gap import read_limit
from palate.construction.checks.shared_words import hashes_of
from palate.construction.checks.standing import without_user
from palate.construction.own_text.pipeline import hash_of_file
from palate.construction.pairs.calls import most_calls
from palate.construction.pairs.dataset_card import CARD, card_of
from palate.construction.pairs.dataset_file import FILE, import_pyarrow, write_pairs
from palate.construction.pairs.drafts import PairDraft
from palate.construction.pairs.making import PairMaker
from palate.construction.pairs.options import FOR_ONCE, PairsOptions
from palate.construction.pairs.result import PairsBuild, PairsRow, PairsSummary
from palate.construction.sources import QuestionSource, open_source
from palate.construction.sources.stack_exchange import dump_files
from palate.data import files_of
from palate.errors import RunError, writing
from palate.evaluation import Start, Work
from palate.files import write_whole
from palate.quality import build_qualities
from palate.records import Settings
from palate.runs import MANIFEST, SUMMARY, Manifest, locked
from palate.session import Session

DATASET = "dataset"


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
    source, output = Path(source), Path(output)
    import_pyarrow()
    work = Work.of(session, settings, root, start=start)
    maker = _maker(options, work)
    with ExitStack() as stack:
        drafts = maker.drafts_of(stack.enter_context(_opened(source, options)))
        # What is refused until here leaves no folder.
        manifest = stack.enter_context(_begun(output, source, options, maker, work))
        written = maker.written(drafts)
        audited = _audited(written, options, work, f"{output.resolve().name} as written")
        kept_drafts = maker.checked(written, _reasons(written, audited) if audited else [])
        return _finish(output, kept_drafts, maker, audited, options, manifest, work)


def plan_pairs(
    source: Path | str,
    options: PairsOptions,
    *,
    session: Session | None = None,
    settings: Settings | None = None,
) -> dict[str, int]:
    """Return how often reader, writers and judge are asked at most; nothing is asked or written."""
    work = Work.of(session, settings)
    maker = _maker(options, work)
    with _opened(Path(source), options) as questions:
        return most_calls(maker.drafts_of(questions), options, work)


def _opened(source: Path, options: PairsOptions) -> AbstractContextManager[QuestionSource]:
    ids, skip = options.keep_ids, options.skip_bad_rows
    return open_source(source, options.layout, keep_ids=ids, skip_bad_rows=skip)


def _maker(options: PairsOptions, work: Work) -> PairMaker:
    """Return what makes pairs, once all options are known to fit: nothing is asked before."""
    options.check()
    if options.adherence:
        build_qualities([options.adherence], work.session, work.settings)
        read_limit(options.gap)
    if options.blind:
        check_blind(work.scorer(options.blind), options.blind, options.apart)
    return PairMaker(options, work)


@contextmanager
def _begun(
    output: Path, source: Path, options: PairsOptions, maker: PairMaker, work: Work
) -> Iterator[Manifest]:
    """Be the one writer of the output; raises `RunError` where it holds something else."""
    identity = options.model_dump(mode="json", exclude=FOR_ONCE)
    of_dump = options.layout == "stackexchange"
    files = dump_files(source) if of_dump else files_of(source)
    manifest = Manifest.of(
        PairsBuild.kind,
        {
            "benchmark": output.resolve().name,
            "name": options.layout,
            **identity,
            "against": [path.name for path in options.against],
            "fingerprints": maker.fingerprints,
            "seed": work.settings.seed,
        },
        inputs={path.name: hash_of_file(path) for path in files} | hashes_of(options.against),
    )
    if output.is_file():
        raise RunError(f"-o {output}: is a file; expected a folder")
    visible = output.is_dir() and any(p.name[0] != "." for p in output.iterdir())
    if visible and not (output / MANIFEST).is_file():
        raise RunError(f"-o {output}: holds files, and no build of pairs; choose another folder")
    with locked(output):
        manifest.write(output)
        yield manifest


def _audited(
    written: Sequence[PairDraft], options: PairsOptions, work: Work, name: str
) -> Audit | None:
    if not written:
        return None
    checks = ("adherence", "gap", "blind", "apart", "against")
    given = {name: getattr(options, name) for name in checks}
    root = work.root if options.blind else None
    given |= {"root": root, "session": work.session, "settings": work.settings}
    return audit(_dataset(written, name), start=work.start, **given)


def _reasons(drafts: Sequence[PairDraft], audited: Audit) -> list[str | None]:
    """Return of each draft the first check that one of its pairs fails."""
    failed = {row.id: row.reasons[0] for row in audited.rows if row.reasons}
    return [
        next((failed[pair.id] for pair in draft.pairs if pair.id in failed), None)
        for draft in drafts
    ]


def _dataset(drafts: Sequence[PairDraft], name: str) -> Dataset:
    return as_mirrored(Dataset(name, tuple(pair for draft in drafts for pair in draft.pairs)))


def _finish(
    output: Path,
    kept_drafts: Sequence[PairDraft],
    maker: PairMaker,
    audited: Audit | None,
    options: PairsOptions,
    manifest: Manifest,
    work: Work,
) -> PairsBuild:
    """Write data set, card, rows and summary, in this order: without a summary it is unfinished."""
    name, folder = manifest.identity["benchmark"], output / DATASET
    dataset = _dataset(kept_drafts, name)
    pairs = dataset.pairs
    with writing(output):
        for path in (output / SUMMARY, folder / CARD, folder / FILE):
            path.unlink(missing_ok=True)
    file = write_pairs(folder, pairs) if pairs else None
    couples = [draft for draft in kept_drafts if draft.mirror is not None]
    summary = PairsSummary(
        benchmark=name,
        layout=options.layout,
        rejected=options.rejected,
        reader=options.reader,
        writers=Counter(draft.writer for draft in kept_drafts),
        pairs=len(pairs),
        couples=len(couples),
        users=len({pair.user_id for pair in pairs}),
        questions=len({pair.normal_key for pair in pairs}),
        askers=maker.n_askers,
        never_asked=sum(not draft.has_asked for draft in couples),
        stages=tuple(maker.stages),
        audit=audited and audited.summary,
        without_user=without_user(dataset, None, work) if pairs else (),
        dataset_hash=hash_of_file(file) if file else None,
    )
    if pairs:
        with writing(folder):
            attributed = sum(pair.gold.attribution is not None for pair in pairs)
            card = card_of(
                summary, manifest.identity, licence=options.licence, attributed=attributed
            )
            write_whole(folder / CARD, card)
    dropped = [draft for draft in maker.drafts.values() if draft.stage is not None]
    written = [draft for draft in dropped if draft.pairs]
    rows = tuple(_row(draft) for draft in maker.drafts.values())
    build = PairsBuild(summary, rows, output, (*kept_drafts[:1], *(written or dropped)[:1]))
    build.save()
    return build


def _row(draft: PairDraft) -> PairsRow:
    mirror = draft.mirror
    return PairsRow(
        id=draft.question.id,
        user=draft.question.user_id,
        mirror_user=mirror and mirror.user_id,
        mirror_user_asked=None if mirror is None else draft.has_asked,
        writer=draft.writer,
        stage=draft.stage,
        reason=draft.reason,
    )
