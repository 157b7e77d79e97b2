"""A trained policy as a result: held-out users before, during and after, and its rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import FiniteFloat

from palate.metrics import Estimate
from palate.records import Record
from palate.rewards import Scale
from palate.seeding import digest
from palate.uses.downstream import Downstream, DownstreamQuality
from palate.uses.result import QuestionRow, UseResult


class QualityLevel(Record):
    """One measure of quality of the answers to held-out users."""

    quality: str
    surrogate: bool
    contrast: bool
    """Whether quality is a contrast, minus that for the mirrored user; values are over couples."""
    mean: Estimate
    unrated: dict[str, int]
    """Why answers have no quality."""


class PolicyEvaluation(Record):
    """What held-out users get after some updates; means over answers but for the estimates."""

    update: int
    """Updates before it; 0 is the untrained policy."""
    reward: Estimate
    """The scorer's, on the scale that the policy is trained on."""
    stranger_reward: Estimate | None
    """Of the same answers where the scorer reads a stranger; None where it reads no user."""
    kl: float
    """KL(policy ‖ untrained policy) of an answer, in nats."""
    tokens: float
    """Of an answer, its end included."""
    ended: float
    """Share of answers that ended before the most tokens."""
    entropy: float
    """Of the policy's next token, in nats: a mean over tokens."""
    distinct: float
    """Share of all answers that are different."""
    copied: float | None
    """Share of an answer's runs of four words that the policy was shown; None without one."""
    unscored: dict[str, int]
    """Why answers have no reward."""
    qualities: tuple[QualityLevel, ...]
    stranger_unscored: dict[str, int] = {}
    """Why answers have none where the scorer reads a stranger."""


class QualityGain(Record):
    """How far training moved one measure of quality."""

    quality: str
    gain: Estimate
    p_holm: float | None = None
    """Of no gain, Holm-corrected over the measures."""


class TrainingGain(Record):
    """After training less before, of the same users and questions."""

    reward: Estimate
    stranger_reward: Estimate | None
    identity: Estimate | None
    """The reward's gain less that of a stranger's: what of it is this user's."""
    qualities: tuple[QualityGain, ...]


class GainFit(Record):
    """R(d) = d (α − β log d), d = √KL, fitted to the gains of the evaluations (Gao et al. 2023)."""

    of: str
    """`reward`, or a measure of quality."""
    alpha: float
    beta: float
    peak_kl: float | None
    """Where R is highest, in nats; None where that is not within what was reached."""


class PolicyTrainingSummary(Record):
    """One policy, trained on one scorer under one context."""

    benchmark: str
    """That is trained on."""
    held_out: str
    """That is evaluated: the same, or another."""
    policy: str
    policy_context: str
    """What the policy is shown of the user."""
    scorer: str
    context: str
    """What the scorer is shown."""
    models: tuple[str, ...]
    """What the rewards come from."""
    fingerprints: tuple[str, ...]
    recipe: dict[str, Any]
    lora: dict[str, Any] | None
    scale: Scale
    """Of the untrained policy's answers to training rows."""
    scaled: bool
    """Whether the reward was brought to that scale."""
    no_end: float | str
    """What an answer got that was cut off."""
    trained_rows: int
    trained_users: int
    held_out_users: int
    shared_questions: int
    """Held-out rows whose question other users asked in training."""
    n: int
    """Answers to a held-out row."""
    start: str
    """Content hash of the untrained policy's answers."""
    evaluations: tuple[PolicyEvaluation, ...]
    gain: TrainingGain
    fits: tuple[GainFit, ...]
    notes: tuple[str, ...]

    @property
    def algorithm(self) -> str:
        """`ppo`, `rloo` or `grpo`."""
        return str(self.recipe["algorithm"])


class PolicyTrainingRow(QuestionRow):
    """One held-out row; means over its answers, by evaluation, null where nothing was scored."""

    rewards: tuple[FiniteFloat | None, ...]
    stranger_rewards: tuple[FiniteFloat | None, ...]
    """Empty where the scorer reads no user."""
    qualities: tuple[tuple[FiniteFloat | None, ...], ...]
    """By evaluation and measure."""


class PolicyTrainingResult(UseResult[PolicyTrainingSummary, PolicyTrainingRow]):
    """A policy that was trained on a reward, and held-out users before, during and after."""

    kind: ClassVar[str] = "ppo"
    content_type, row_type = PolicyTrainingSummary, PolicyTrainingRow

    @cached_property
    def qualities(self) -> NDArray[np.float64]:
        """Mean quality, rows × evaluations × measures; NaN where there is none."""
        return np.array([row.qualities for row in self.rows], dtype=np.float64)

    @property
    def is_whole(self) -> bool:
        """Whether every row has a value of each evaluation and measure."""
        evaluations = self.summary.evaluations
        shape = len(evaluations), *{len(each.qualities) for each in evaluations}
        shapes = {(len(row.qualities), *{len(each) for each in row.qualities}) for row in self.rows}
        return shapes == {shape}

    def downstream(self, k: int | None = None) -> list[Downstream]:
        """Return the quality of the trained policy's answers to held-out rows, by measure."""
        del k
        summary, last = self.summary, self.summary.evaluations[-1]
        shared = digest(
            summary.start,
            summary.recipe,
            summary.lora,
            summary.scaled,
            summary.no_end,
            summary.n,
            summary.benchmark,
            summary.trained_rows,
        )
        name = (summary.scorer, summary.context)
        return [
            self.measured(
                DownstreamQuality(
                    benchmark=summary.held_out,
                    policy=summary.policy,
                    quality=of.quality,
                    surrogate=of.surrogate,
                    k=1,
                    n_samples=summary.n,
                    trained_by=f"{summary.algorithm}, {last.update} updates",
                ),
                {name: self.qualities[:, -1, number]},
                {name: summary},
                samples=shared,
                mirrored=of.contrast,
                complete=not of.unrated,
            )
            for number, of in enumerate(last.qualities)
            if not np.isnan(self.qualities[:, -1, number]).all()
        ]
