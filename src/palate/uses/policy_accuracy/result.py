"""Policy accuracy as a result: a curve over weights per scorer, context and reading, and rows."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import FiniteFloat

from palate.metrics.policy import READINGS, Reading
from palate.metrics.ranks import RankAgreement
from palate.records import Record
from palate.runs import ReportedEstimate
from palate.seeding import digest
from palate.uses.downstream import Downstream
from palate.uses.result import Cell, CellResult, CellSummary

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
        del k
        summary, n = self.summary, len(self.summary.weights) + 1
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
            self.measured(
                [(cell * len(READINGS) + at) * n + n - 1 for cell in range(len(summary.cells))],
                "",
                "policy accuracy",
                samples=answers,
            )
            for at, reading in enumerate(READINGS)
            if reading != "ratio" or summary.score != "tilt"
        ]
