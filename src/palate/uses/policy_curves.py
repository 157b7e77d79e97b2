"""Policy accuracy as a result: curves over weights, the weight chosen, agreement of scorers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from palate.benchmarks import Dataset
from palate.contexts import NOTHING
from palate.evaluation import BoundScorer, need_replies, unscored_reason
from palate.execution import Results
from palate.metrics import RankAgreement, kendall_agreement
from palate.metrics.arrays import deal, row_means
from palate.metrics.policy import (
    INFINITE,
    READINGS,
    PolicyScores,
    Reading,
    best_weight,
    cross_fitted,
)
from palate.metrics.ranks import LEAST_SCORERS
from palate.records import Record
from palate.runs import ReportedEstimate, with_holm
from palate.scorers import is_baseline
from palate.scorers.tilted_policy import SteeredPolicy
from palate.seeding import digest
from palate.uses.result import Cell, CellResult, CellSummary, ValueColumn, ValueTable
from palate.uses.units import Doubles, Downstream, PairUnits

ROUNDED = 1e-9
"""Of the largest margin: what is closer was moved by rounding alone."""
CHOSEN = "chosen weight"
Weight = FiniteFloat | Literal["inf"]


class CurvePoint(Record):
    """Policy accuracy at one weight."""

    weight: Weight
    """As it was asked for: relative, where weights are."""
    accuracy: ReportedEstimate


class ReadingCurve(Record):
    """Policy accuracy of one reading of the score."""

    reading: Reading
    base: ReportedEstimate
    """Of the policy without the reward, read as the sum, or for `mean` as the mean."""
    points: tuple[CurvePoint, ...]
    chosen: tuple[Weight, ...]
    """The weight chosen on other rows; several where folds chose differently."""
    accuracy: ReportedEstimate
    """At the chosen weight."""
    gain: ReportedEstimate
    """Over the base, on the same rows."""
    gain_p: float | None
    gain_p_holm: float | None = None
    """Over the cells of one reading; baselines and oracles have none."""


class Misses(Record):
    """Tokens of responses that the policy's candidate sets do not hold."""

    tokens: int
    missed: int


class PolicyCell(Cell):
    """One scorer under one context as the reward, or what the policy itself is shown.

    Without a guide the scorer is the policy.
    """

    unit: FiniteFloat
    """The weight that stands for relative weight 1; 1 where weights are not relative."""
    reward: ReportedEstimate
    """Accuracy of the reward alone, on the same rows."""
    readings: tuple[ReadingCurve, ...]
    misses: Misses | None = None
    unscored_reasons: dict[str, int]


class PolicyAgreement(Record):
    """Kendall's τ-b of reward and policy accuracy over scorers, at one weight."""

    reading: Reading
    weight: Weight | Literal["chosen"]
    agreement: RankAgreement


class Reserved(Record):
    """Pairs that are not evaluated."""

    source: Literal["adapt", "left out", "set aside"]
    """Of the split `adapt`; left out by a limit or by mirrors; or taken from the rows for this."""
    n: int


class PolicySummary(CellSummary[PolicyCell]):
    """All curves of one policy on one benchmark."""

    policy: str
    base: str | None
    """What a policy without a guide is compared with, where it is not the policy itself."""
    score: Literal["tilt", "decoder"]
    method: str | None
    """Of `decoder`."""
    k: int | None = None
    """Candidates of a token, where the method has a number of them."""
    guided: bool
    """False where the policy is steered by what it is shown."""
    policy_shown: bool
    """True where the policy is shown what the guide is."""
    relative: bool
    weights: tuple[Weight, ...]
    reserved: Reserved | None
    """Pairs that set the unit of relative weights, and of `adapt` chose the weight."""
    chosen_on: Literal["adapt", "folds"]
    n_rows: int
    n_common: int
    """Rows that every cell without an oracle scored: what `agreements` rests on."""
    agreements: tuple[PolicyAgreement, ...]
    """Empty with fewer than three scorers."""


class PolicyAccuracy(CellResult[PolicySummary]):
    """Policy accuracy of one policy: a column is 1, ½ or 0 by cell, reading and weight.

    The last weight of a reading is the chosen one.
    """

    kind: ClassVar[str] = "policy-accuracy"
    content_type = PolicySummary

    def downstream(self, k: int | None = None) -> list[Downstream]:
        """Return policy accuracy at the weight chosen on other rows, a measure for each reading.

        The ratio of tilt orders responses as the reward does, so it is left out. Scorers are held
        to the rows that all of them scored.
        """
        summary = self.summary
        answers = digest(
            summary.base,
            summary.policy_shown,
            summary.relative,
            summary.k,
            list(summary.weights),
            summary.chosen_on,
            summary.reserved and summary.reserved.model_dump(),
            [row.content_hash for row in self.rows],
        )
        return [
            self.measured(numbers, "", "policy accuracy", samples=answers)
            for (measure, _), numbers in self.ranked(CHOSEN).items()
            if summary.score != "tilt" or not measure.endswith("ratio")
        ]


class PassScores(NamedTuple):
    """Scores of all pairs (pairs × draws × 2, chosen first), and why pairs have none."""

    scores: PolicyScores
    reasons: dict[str, int]

    @classmethod
    def of(cls, job: BoundScorer, passes: Sequence[Results]) -> Self:
        """Gather what is known of every pair; raises `EndpointError` where there was no reply."""
        scorer, rows = job.scorer, job.rows
        assert isinstance(scorer, SteeredPolicy)
        need_replies(job.spec, passes, "rows")
        reasons: Counter[str] = Counter()
        by_row = []
        for row in range(len(rows)):
            scores, why = scorer.scores_of([results.scores(row) for results in passes])
            if reason := unscored_reason(job, row, passes, row) or why[0] or why[1]:
                reasons[reason] += 1
                scores = scores.map(lambda array: np.full_like(array, np.nan))
            chosen_first = rows.chosen_position(row) == 0
            by_row.append(scores if chosen_first else scores.map(lambda array: array[::-1]))
        shape = len(rows) // rows.draws, rows.draws, 2
        whole = PolicyScores.stacked(by_row).map(lambda array: array.reshape(shape))
        return cls(whole, dict(sorted(reasons.items())))

    def values(self, weights: Sequence[float], reading: Reading) -> Doubles:
        """Return 1, ½ or 0 (pairs × weights), the mean over strangers; NaN where unscored."""
        columns = [row_means(self.scores.values(weight, reading)) for weight in weights]
        return np.stack(columns, axis=1)

    @property
    def reward(self) -> Doubles:
        """The same of the reward alone, by pair."""
        alone = self.scores.reward
        return row_means(PolicyScores.tilt(0 * alone, alone, 1 + 0 * alone).values(1, "ratio"))


class CellValues(NamedTuple):
    """What one cell says of every evaluated row; NaN in all where it does not count."""

    reward: Doubles
    margins: Doubles
    """Of the reward, by row and draw."""
    base: Mapping[Reading, Doubles]
    values: Doubles
    """Rows × readings × (weights and the chosen one)."""
    chosen: Mapping[Reading, tuple[Weight, ...]]

    def moves(self, bare: CellValues | None) -> bool:
        """Tell whether its margins are others than those that are shown nothing."""
        if bare is None:
            return True
        apart = ROUNDED * (1 + float(np.nanmax(np.abs(bare.margins), initial=0.0)))
        return not np.allclose(self.margins, bare.margins, rtol=0.0, atol=apart, equal_nan=True)


def written(weight: float) -> Weight:
    """Return a weight as results hold it; JSON has no infinity."""
    return "inf" if weight == INFINITE else weight


@dataclass(frozen=True)
class Curves:
    """The pairs that are evaluated, and the weights at which."""

    pairs: Dataset
    weights: Sequence[float]

    @cached_property
    def units(self) -> PairUnits:
        """The pairs and their couples."""
        return PairUnits(self.pairs.pairs, self.pairs.couples)

    @cached_property
    def folds(self) -> NDArray[np.int64]:
        """Each row's fold; the rows of a question are in one."""
        names = [row.key for row in self.pairs.rows]
        distinct = sorted(set(names))
        return deal(distinct, 0)[np.searchsorted(distinct, names)]

    def accuracy(self, values: Doubles) -> ReportedEstimate:
        """Return policy accuracy of each row's value."""
        return ReportedEstimate.of(self.units.accuracy(values))

    def values(self, scored: PassScores, unit: float, choosing: PassScores | None) -> CellValues:
        """Return the values of a cell at every weight, and at the weight chosen on other rows.

        `unit` stands for weight 1. `choosing` holds the rows that choose; without it every fold of
        whole questions is given the weight that is best on the others.
        """
        plain = scored.values([0], "sum")[:, 0]
        counts = self.units.complete(~np.isnan(plain + scored.reward))
        weights, read_at = self.weights, [weight * unit for weight in self.weights]
        chosen: dict[Reading, tuple[Weight, ...]] = {}
        listed, base = [], {}
        for reading in READINGS:
            values = np.where(counts[:, None], scored.values(read_at, reading), np.nan)
            if choosing is None:
                picked = cross_fitted(values, self.folds, weights)
            else:
                means = np.nanmean(choosing.values(read_at, reading), axis=0)
                picked = np.full(len(values), best_weight(means.tolist(), weights))
            at_chosen = np.take_along_axis(values, picked[:, None], axis=1)
            listed.append(np.concatenate([values, at_chosen], axis=1))
            named = sorted({weights[k] for k in picked[counts].tolist()})
            chosen[reading] = tuple(map(written, named))
            plain_values = plain if reading != "mean" else scored.values([0], reading)[:, 0]
            base[reading] = np.where(counts, plain_values, np.nan)
        first, second = np.moveaxis(scored.scores.reward, -1, 0)
        reward = np.where(counts, scored.reward, np.nan)
        return CellValues(reward, first - second, base, np.stack(listed, axis=1), chosen)

    def readings(self, cell: CellValues) -> tuple[ReadingCurve, ...]:
        """Return the curve of each reading."""
        curves = []
        for k, reading in enumerate(READINGS):
            columns, base = cell.values[:, k].T, cell.base[reading]
            *points, at_chosen = map(self.accuracy, columns)
            gain = self.units.gain(columns[-1], base)
            curves.append(
                ReadingCurve(
                    reading=reading,
                    base=self.accuracy(base),
                    points=tuple(
                        CurvePoint(weight=written(weight), accuracy=point)
                        for weight, point in zip(self.weights, points, strict=True)
                    ),
                    chosen=cell.chosen[reading],
                    accuracy=at_chosen,
                    gain=ReportedEstimate.of(gain),
                    gain_p=gain.p,
                )
            )
        return tuple(curves)

    def agreements(
        self, cells: Sequence[PolicyCell], values: Sequence[CellValues], seed: int
    ) -> tuple[int, tuple[PolicyAgreement, ...]]:
        """Return the rows that all scorers scored, and τ of reward and policy accuracy over them.

        A scorer here is a scorer under one context, as in predictive validity: oracles do not
        count, and one that a context does not move counts once.
        """
        both = [(cell, of) for cell, of in zip(cells, values, strict=True) if not cell.oracle]
        bare = {cell.scorer: of for cell, of in both if cell.context == NOTHING}
        counted = [
            of for cell, of in both if cell.context == NOTHING or of.moves(bare.get(cell.scorer))
        ]
        if not counted:
            return 0, ()
        shared = np.asarray(~np.isnan([of.reward for of in counted]).any(axis=0))
        n = int(shared.sum())
        if len(counted) < LEAST_SCORERS or not n:
            return n, ()

        def accuracies(columns: Iterable[Doubles]) -> Doubles:
            held = (np.where(shared, column, np.nan) for column in columns)
            return np.array([self.units.accuracy(column).value for column in held], np.float64)

        rewards = accuracies(of.reward for of in counted)
        over_scorers = []
        for k, reading in enumerate(READINGS):
            for at, weight in enumerate((*map(written, self.weights), "chosen")):
                policies = accuracies(of.values[:, k, at] for of in counted)
                tau = kendall_agreement(rewards, policies, seed=seed)
                point = PolicyAgreement(reading=reading, weight=weight, agreement=tau)
                over_scorers.append(point)
        return n, tuple(over_scorers)

    def table(self, values_of_cells: Sequence[CellValues], method: str | None) -> ValueTable:
        """Return every cell's values by reading and weight."""
        ids = {row.id for row in self.pairs.rows}
        couples = all(getattr(row, "mirror_of", None) in ids for row in self.pairs.rows)
        score = "tilt" if method is None else f"decoder {method}"
        settings = [*(f"weight {written(weight)}" for weight in self.weights), CHOSEN]
        table = ValueTable(self.pairs)
        for number, of_cell in enumerate(values_of_cells):
            for reading, values in zip(READINGS, np.moveaxis(of_cell.values, 1, 0), strict=True):
                measure = f"policy accuracy by {score}, {reading}"
                column = ValueColumn(cell=number, measure=measure, couples=couples)
                for setting, credits in zip(settings, values.T, strict=True):
                    table.add(column.model_copy(update={"setting": setting}), credits)
        return table


def corrected(cells: Sequence[PolicyCell]) -> list[PolicyCell]:
    """Put Holm's p to each gain, over the cells of one reading; baselines and oracles apart."""
    curves = [(cell, curve) for cell in cells for curve in cell.readings]
    families = [
        None if cell.oracle or is_baseline(cell.scorer) else curve.reading for cell, curve in curves
    ]
    every = [curve for _, curve in curves]
    adjusted = iter(
        with_holm(every, [curve.gain_p for curve in every], families, into="gain_p_holm")
    )
    return [
        cell.model_copy(update={"readings": tuple(islice(adjusted, len(cell.readings)))})
        for cell in cells
    ]
