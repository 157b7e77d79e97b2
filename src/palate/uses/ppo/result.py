"""A trained policy as a result: held-out users before, during and after, and its rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

from palate.metrics import Estimate
from palate.records import Record
from palate.rewards import Scale
from palate.seeding import digest
from palate.uses.downstream import Downstream
from palate.uses.result import Cell, CellResult, CellSummary
from palate.uses.units import Doubles


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


class PolicyTrainingSummary(CellSummary[Cell]):
    """One policy, trained on one scorer under one context on the benchmark."""

    held_out: str
    """The benchmark that is evaluated: the same, or another."""
    policy: str
    policy_context: str
    """What the policy is shown of the user."""
    recipe: dict[str, Any]
    lora: dict[str, Any] | None
    scale: Scale
    """Of the untrained policy's answers to training rows."""
    scaled: bool
    """Whether the reward was brought to that scale."""
    missing_eos: float | str
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

    @property
    def trained_on(self) -> Cell:
        """The scorer that gives the rewards, and what it is shown."""
        return self.cells[0]

    @property
    def algorithm(self) -> str:
        """`ppo`, `rloo` or `grpo`."""
        return str(self.recipe["algorithm"])


class PolicyTrainingResult(CellResult[PolicyTrainingSummary]):
    """A policy that was trained on a reward, and held-out users before, during and after.

    A column is a mean over a row's answers after some updates: first of rewards, then of rewards
    that read a stranger where there are any, then of every measure of quality by evaluation.
    """

    kind: ClassVar[str] = "ppo"
    content_type = PolicyTrainingSummary

    @property
    def _n(self) -> int:
        return len(self.summary.evaluations)

    @property
    def rewards(self) -> Doubles:
        """Mean reward, rows × evaluations; NaN where nothing was scored."""
        return self.values[:, : self._n]

    @property
    def stranger_rewards(self) -> Doubles | None:
        """The same where the scorer reads a stranger; None where it reads no user."""
        reads = self.summary.evaluations[0].stranger_reward is not None
        return self.values[:, self._n : 2 * self._n] if reads else None

    @cached_property
    def qualities(self) -> Doubles:
        """Mean quality, rows × evaluations × measures; NaN where there is none."""
        first = self._n * (1 if self.stranger_rewards is None else 2)
        return self.values[:, first:].reshape(len(self.rows), self._n, -1)

    def downstream(self, k: int | None = None) -> list[Downstream]:
        """Return the quality of the trained policy's answers to held-out rows, by measure."""
        del k
        summary, last = self.summary, self.summary.evaluations[-1]
        shared = digest(
            summary.start,
            summary.recipe,
            summary.lora,
            summary.scaled,
            summary.missing_eos,
            summary.n,
            summary.benchmark,
            summary.trained_rows,
        )
        first = len(summary.columns) - len(last.qualities)
        return [
            self.measured(
                [first + number],
                f"trained by {summary.algorithm}, {last.update} updates",
                "trained answers",
                samples=shared,
                n_samples=summary.n,
                shared=False,
                benchmark=summary.held_out,
                complete=not of.unrated,
            )
            for number, of in enumerate(last.qualities)
        ]
