"""What a benchmark should predict: each scorer's quality at one k, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.errors import ComparisonError, UsageError
from palate.metrics.estimates import ROUNDING
from palate.metrics.policy import READINGS
from palate.metrics.selection.units import Units
from palate.seeding import digest
from palate.uses.best_of_n import BestOfResult
from palate.uses.decode import DecodeResult, GuidedCell
from palate.uses.policy_accuracy import PolicyAccuracy
from palate.uses.ppo import PolicyTrainingResult
from palate.validity.metric_values import CellKey, Doubles, ScorerTable
from palate.validity.result import DownstreamQuality

DownstreamResult = BestOfResult | DecodeResult | PolicyAccuracy | PolicyTrainingResult


class Origin(NamedTuple):
    """What made a scorer's scores."""

    models: tuple[str, ...]
    fingerprints: tuple[str, ...]
    where: str


@dataclass(frozen=True, eq=False)
class Downstream:
    """Quality by scorer, of picked, guided or trained answers, or policy accuracy."""

    of: DownstreamQuality
    samples: str
    """Content hash of the answers that were picked from; of guided ones, of the unguided; of policy
    accuracy, of what was asked; of trained ones, of all that their training shares."""
    values: Mapping[CellKey, Doubles]
    """Quality of each row's pick or guided answers; all have the same rows, the others are NaN."""
    rows: Mapping[str, str]
    """Id of each row, in order, and the hash of what it asks and between what."""
    users: NDArray[np.str_]
    """Whose row it is."""
    questions: NDArray[np.str_]
    """Hash of each row's question: rows of one question share answers."""
    mirrors: NDArray[np.int64] | None = None
    """Of a contrast, the number of each row's mirrored row: its units are couples."""
    origins: Mapping[CellKey, Origin] = field(default_factory=dict)
    """What made each scorer's scores, where it is known."""
    complete: bool = True
    """No answer was left without score or quality."""

    @cached_property
    def constant(self) -> frozenset[CellKey]:
        """Who has the same value in every row, or couple, as the blind have in a contrast."""
        units = self._units()
        return frozenset(
            name for name, own in self.values.items() if np.ptp(units.values(own)) <= ROUNDING
        )

    def table(self, scorers: Sequence[CellKey]) -> ScorerTable:
        """Return the values of some scorers over rows, or couples, with their clusters."""
        units = self._units()
        values = np.stack([self.values[name] for name in scorers], axis=1)
        return ScorerTable(tuple(scorers), units.values(values), units.clusters)

    def _units(self) -> Units:
        rated = ~np.isnan(next(iter(self.values.values())))
        return Units.of(self.users, self.questions, rated, self.mirrors)


def downstream_of(result: DownstreamResult, k: int | None = None) -> list[Downstream]:
    """Return the measures of quality of a best-of-n at k, by default the largest up to n / 2.

    Where no k from 2 up to half the samples is there, the smallest above 1. Of guided answers they
    are those of each method and weight; of policy accuracy its readings at the weight chosen on
    other rows; of a trained policy its answers to held-out rows. Oracles are left out.

    Raises `UsageError` for a k that is not there, or where none is above 1: the best of one is the
    same for all scorers.
    """
    if isinstance(result, DecodeResult):
        return _guided(result)
    if isinstance(result, PolicyAccuracy):
        return policy_accuracies(result)
    if isinstance(result, PolicyTrainingResult):
        return _trained(result)
    ks, n, where = result.summary.ks, result.summary.samples.n, _where(result)
    above = [size for size in ks if size > 1]
    if k == 1 or not above:
        raise UsageError(
            f"{where}: the best of 1 is the same for every scorer; name the folders of other "
            "results, or run best-of-n with a larger --ks"
        )
    if k is not None and k not in ks:
        raise UsageError(
            f"{where}: has no best of {k} (sizes: {', '.join(map(str, ks))}); "
            "name the folders that have it"
        )
    at = k or max((size for size in above if 2 * size <= n), default=min(above))
    named = dict.fromkeys(s.quality for s in result.summary.selections if not s.oracle)
    return [_measure(result, quality, at) for quality in named]


def policy_accuracies(result: PolicyAccuracy) -> list[Downstream]:
    """Return policy accuracy as it is read: sum, mean and, of a decoder, ratio.

    The ratio of tilt orders responses as the reward does, so it is left out. Scorers are held to
    the rows that all of them scored.
    """
    summary, where = result.summary, _where(result)
    counted = [(k, cell) for k, cell in enumerate(summary.cells) if not cell.oracle]
    chosen = result.values[..., -1]
    shared = _rows_of_all(chosen[:, [k for k, _ in counted], 0], where)
    made = []
    for at, reading in enumerate(READINGS):
        if reading == "ratio" and summary.score == "tilt":
            continue
        score = summary.score if summary.method is None else f"{summary.score} {summary.method}"
        of = DownstreamQuality(
            benchmark=summary.benchmark, policy=summary.policy,
            quality=f"policy accuracy by {score}, {reading}", surrogate=False, k=None,
            n_samples=None,
        )  # fmt: skip
        made.append(Downstream(
            of=of,
            samples=digest(
                summary.base, summary.policy_shown, summary.relative, summary.k,
                list(summary.weights), summary.chosen_on,
                summary.reserved and summary.reserved.model_dump(),
                [row.content_hash for row in result.rows],
            ),
            values={
                (cell.scorer, cell.context): np.where(shared, chosen[:, k, at], np.nan)
                for k, cell in counted
            },
            rows={row.id: row.content_hash for row in result.rows},
            users=np.array(result.users),
            questions=np.array(result.questions),
            mirrors=None if result.mirrors is None else np.array(result.mirrors),
            origins={
                (cell.scorer, cell.context): Origin(cell.models, cell.fingerprints, where)
                for _, cell in counted
            },
            complete=bool(shared.all()),
        ))  # fmt: skip
    return made


def joined(results: Sequence[Downstream]) -> list[Downstream]:
    """Return what several results say of the same answers and measure as one.

    A scorer that is there twice with the same picks counts once. Raises `ComparisonError` where
    its picks differ, and where answers were left without score or quality: each result then rests
    on other answers.
    """
    by: dict[tuple[DownstreamQuality, str], Downstream] = {}
    for result in (result for result in results if result.values):
        first = by.setdefault((result.of, result.samples), result)
        if first is result:
            continue
        first_folder, other = (next(iter(side.origins.values())).where for side in (first, result))
        if not (first.complete and result.complete) or first.rows != result.rows:
            raise ComparisonError(
                f"validity: {first_folder} and {other} rest on different answers of "
                f"{result.of.policy}, since some have no score; name one of them, or run "
                f"{_command(result.of)} with all scorers"
            )
        for scorer, context in first.values.keys() & result.values.keys():
            apart = first.values[scorer, context] - result.values[scorer, context]
            if bool(np.any(np.abs(apart) > ROUNDING)):
                raise ComparisonError(
                    f"validity: {scorer} under {context} picks otherwise in {first_folder} than "
                    f"in {other}; name one of them"
                )
        by[result.of, result.samples] = replace(
            first,
            values={**first.values, **result.values},
            origins={**first.origins, **result.origins},
        )
    return list(by.values())


def _measure(result: BestOfResult, quality: str, k: int) -> Downstream:
    summary, at, where = result.summary, result.summary.ks.index(k), _where(result)
    listed = [
        (selection, result.expected[:, number, at])
        for number, selection in enumerate(summary.selections)
        if selection.quality == quality and not selection.oracle
    ]
    scored = {(s.scorer, s.context): (s, v) for s, v in listed if not np.isnan(v).all()}
    first = listed[0][0]
    return Downstream(
        of=DownstreamQuality(
            benchmark=summary.benchmark, policy=summary.policy, quality=quality,
            surrogate=first.surrogate, k=k, n_samples=summary.samples.n,
        ),
        samples=summary.samples.content_hash,
        values={name: values for name, (_, values) in scored.items()},
        rows={row.id: row.content_hash for row in result.rows},
        users=np.array(result.users), questions=np.array(result.questions),
        mirrors=np.array(result.mirrors) if first.contrast else None,
        origins={
            name: Origin(s.models, s.fingerprints, where) for name, (s, _) in scored.items()
        },
        complete=not (summary.unrated.get(quality) or any(s.unscored_reasons for s, _ in listed)),
    )  # fmt: skip


def _guided(result: DecodeResult) -> list[Downstream]:
    """Return the quality of guided answers, a measure for each method and weight.

    All scorers are held to the rows that all of them guide.
    """
    summary, where = result.summary, _where(result)
    by_method: dict[str, list[int]] = {}
    for number, cell in enumerate(summary.cells):
        if not cell.oracle:
            by_method.setdefault(method_name(cell), []).append(number)
    measures = []
    for method, numbers in by_method.items():
        cells = [summary.cells[number] for number in numbers]
        for m, quality in enumerate(summary.qualities):
            values = result.guided[:, numbers, m]
            values = np.where(_rows_of_all(values, where)[:, None], values, np.nan)
            left_out = any(cell.left_out or cell.qualities[m].unrated for cell in cells)
            measures.append(Downstream(
                of=DownstreamQuality(
                    benchmark=summary.benchmark, policy=summary.policy, quality=quality.quality,
                    surrogate=quality.surrogate, k=1, n_samples=summary.n, guided_by=method,
                ),
                samples=summary.samples,
                values={
                    (cell.scorer, cell.context): values[:, k] for k, cell in enumerate(cells)
                },
                rows={row.id: row.content_hash for row in result.rows},
                users=np.array(result.users), questions=np.array(result.questions),
                mirrors=np.array(result.mirrors) if quality.contrast else None,
                origins={
                    (cell.scorer, cell.context): Origin(cell.models, cell.fingerprints, where)
                    for cell in cells
                },
                complete=not left_out,
            ))  # fmt: skip
    return measures


def _trained(result: PolicyTrainingResult) -> list[Downstream]:
    """Return the quality of the trained policy's answers to held-out rows, by measure."""
    summary, last = result.summary, result.summary.evaluations[-1]
    shared = digest(
        summary.start, summary.recipe, summary.lora, summary.scaled, summary.no_end, summary.n,
        summary.benchmark, summary.trained_rows,
    )  # fmt: skip
    name = (summary.scorer, summary.context)
    measures = []
    for k, of in enumerate(last.qualities):
        values = result.qualities[:, -1, k]
        if np.isnan(values).all():
            continue
        measures.append(Downstream(
            of=DownstreamQuality(
                benchmark=summary.held_out, policy=summary.policy, quality=of.quality,
                surrogate=of.surrogate, k=1, n_samples=summary.n,
                trained_by=f"{summary.algorithm}, {last.update} updates",
            ),
            samples=shared,
            values={name: values},
            rows={row.id: row.content_hash for row in result.rows},
            users=np.array(result.users), questions=np.array(result.questions),
            mirrors=np.array(result.mirrors) if of.contrast else None,
            origins={name: Origin(summary.models, summary.fingerprints, _where(result))},
            complete=not of.unrated,
        ))  # fmt: skip
    return measures


def method_name(cell: GuidedCell) -> str:
    """Return a cell's method and weight."""
    return cell.method if cell.weight is None else f"{cell.method} {cell.weight:g}"


def _command(of: DownstreamQuality) -> str:
    if of.trained_by is not None:
        return PolicyTrainingResult.kind
    if of.guided_by is not None:
        return DecodeResult.kind
    return PolicyAccuracy.kind if of.k is None else BestOfResult.kind


def _rows_of_all(values: Doubles, where: str) -> NDArray[np.bool_]:
    shared = np.asarray(~np.isnan(values).any(axis=1))
    if not shared.any():
        raise ComparisonError(
            f"validity: {where} has no row with a value of every scorer; run it again without the "
            "scorer or context that has the fewest"
        )
    return shared


def _where(result: DownstreamResult) -> str:
    return str(result.folder or f"{result.kind} of {result.summary.policy}")
