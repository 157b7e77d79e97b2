"""Policy accuracy as a result: a curve over weights per scorer, context and reading, and rows."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from palate.metrics.policy import READINGS, Reading
from palate.metrics.ranks import RankAgreement
from palate.records import Record
from palate.runs import ReportedEstimate
from palate.seeding import digest
from palate.uses.downstream import Downstream, DownstreamQuality, rows_of_all
from palate.uses.result import QuestionRow, UseResult

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


class PolicyCell(Record):
    """One scorer under one context as the reward, or what the policy itself is shown."""

    scorer: str
    """The guide; where there is none, the policy."""
    context: str
    oracle: bool
    models: tuple[str, ...]
    fingerprints: tuple[str, ...]
    """Of each computation behind the reward."""
    unit: FiniteFloat
    """The weight that stands for relative weight 1; 1 where weights are not relative."""
    reward: ReportedEstimate
    """Accuracy of the reward alone, on the same rows."""
    readings: tuple[ReadingCurve, ...]
    misses: Misses | None = None
    unscored_reasons: dict[str, int]
    notes: tuple[str, ...]


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


class PolicySummary(Record):
    """All curves of one policy on one benchmark."""

    benchmark: str
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
    cells: tuple[PolicyCell, ...]
    agreements: tuple[PolicyAgreement, ...]
    """Empty with fewer than three scorers."""


class PolicyRow(QuestionRow):
    """What every score says of one row: 1, ½ or 0."""

    values: tuple[tuple[tuple[FiniteFloat, ...], ...] | None, ...]
    """By cell and reading, at each weight and then at the chosen one; null where unscored."""


class PolicyAccuracy(UseResult[PolicySummary, PolicyRow]):
    """Policy accuracy of one policy."""

    kind: ClassVar[str] = "policy-accuracy"
    content_type, row_type = PolicySummary, PolicyRow

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """Rows × cells × readings × (weights and the chosen one); NaN where unscored."""
        nothing = ((np.nan,) * (len(self.summary.weights) + 1),) * len(READINGS)
        return np.array([[cell or nothing for cell in row.values] for row in self.rows])

    def downstream(self, k: int | None = None) -> list[Downstream]:
        """Return policy accuracy at the weight chosen on other rows, a measure for each reading.

        The ratio of tilt orders responses as the reward does, so it is left out. Scorers are held
        to the rows that all of them scored.
        """
        del k
        summary = self.summary
        counted = {
            (cell.scorer, cell.context): (number, cell)
            for number, cell in enumerate(summary.cells)
            if not cell.oracle
        }
        chosen = self.values[..., -1]
        shared = rows_of_all(chosen[:, [number for number, _ in counted.values()], 0], self.where)
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
        score = summary.score if summary.method is None else f"{summary.score} {summary.method}"
        return [
            self.measured(
                DownstreamQuality(
                    benchmark=summary.benchmark,
                    policy=summary.policy,
                    quality=f"policy accuracy by {score}, {reading}",
                    surrogate=False,
                    k=None,
                    n_samples=None,
                ),
                {
                    key: np.where(shared, chosen[:, number, at], np.nan)
                    for key, (number, _) in counted.items()
                },
                {key: cell for key, (_, cell) in counted.items()},
                samples=answers,
                mirrored=self.mirrors is not None,
                complete=bool(shared.all()),
            )
            for at, reading in enumerate(READINGS)
            if reading != "ratio" or summary.score != "tilt"
        ]
