"""A trained policy as a result: held-out users before, during and after, and the fit of gains."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from palate.metrics import Estimate
from palate.metrics.arrays import row_means
from palate.records import Record
from palate.rewards import Scale
from palate.runs import with_holm
from palate.seeding import digest
from palate.uses.result import Cell, CellResult, CellSummary, QualityLevel, ValueColumn, ValueTable
from palate.uses.units import Doubles, Downstream, RowFigures

if TYPE_CHECKING:
    from palate.benchmarks import Dataset
    from palate.quality import SampleQuality
    from palate.trainers import HeldOutAnswer, HeldOutAnswers


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
        unrated = {quality.quality: quality.unrated for quality in last.qualities}
        return [
            self.measured(
                numbers,
                f"trained by {summary.algorithm}, {last.update} updates",
                "trained answers",
                samples=shared,
                n_samples=summary.n,
                shared=False,
                benchmark=summary.held_out,
                complete=not unrated[measure],
            )
            for (measure, _), numbers in self.ranked(f"after {last.update} updates").items()
            if measure in unrated
        ]


@dataclass(frozen=True, eq=False)
class RatedAnswers:
    """The held-out answers of one evaluation, with their qualities."""

    answers: HeldOutAnswers
    qualities: Sequence[SampleQuality]
    scale: Scale | None
    """That rewards are brought to."""
    reads_stranger: bool
    """Whether the answers also have the reward of a scorer that reads a stranger."""

    @property
    def after(self) -> str:
        """What tells its columns apart."""
        return f"after {self.answers.update} updates"

    @cached_property
    def rewards(self) -> Doubles:
        """The mean reward of each row's answers."""
        return self._means(lambda answer: answer.reward)

    @cached_property
    def stranger_rewards(self) -> Doubles | None:
        """The same of a scorer that reads a stranger; None where it reads none."""
        if not self.reads_stranger:
            return None
        return self._means(lambda answer: answer.stranger_reward)

    def _means(self, of: Callable[[HeldOutAnswer], float | None]) -> Doubles:
        rewards = [[of(answer) for answer in row.answers] for row in self.answers.rows]
        numbers = np.array(rewards, dtype=np.float64)  # None becomes NaN
        if self.scale is not None:
            numbers = (numbers - self.scale.mean) / self.scale.deviation
        return row_means(numbers)


class Tabulated(NamedTuple):
    """All that a result holds of the evaluations."""

    evaluations: tuple[PolicyEvaluation, ...]
    gain: TrainingGain
    fits: tuple[GainFit, ...]
    table: ValueTable


def tabulate(pairs: Dataset, rated: Sequence[RatedAnswers], seed: int) -> Tabulated:
    """Return the figures of all evaluations, the untrained policy's first."""
    figures = RowFigures.of(pairs, seed)
    evaluations = tuple(_evaluation(answers, figures) for answers in rated)
    gain = _gain(rated[0], rated[-1], figures)
    return Tabulated(evaluations, gain, _fits(evaluations), _table(pairs, rated))


def _evaluation(rated: RatedAnswers, figures: RowFigures) -> PolicyEvaluation:
    every, stranger = rated.answers.every, rated.stranger_rewards
    tokens = sum(answer.tokens for answer in every)
    copied = [answer.copied for answer in every if answer.copied is not None]
    strange = Counter(answer.stranger_reason for answer in every if answer.stranger_reason)
    return PolicyEvaluation(
        update=rated.answers.update,
        reward=figures.reward_mean(rated.rewards),
        stranger_reward=None if stranger is None else figures.reward_mean(stranger),
        kl=float(np.mean([answer.kl for answer in every])),
        tokens=float(np.mean([answer.tokens for answer in every])),
        ended=float(np.mean([answer.ended for answer in every])),
        entropy=float(sum(answer.entropy for answer in every) / tokens),
        distinct=len({answer.text for answer in every}) / len(every),
        copied=float(np.mean(copied)) if copied else None,
        unscored=dict(Counter(answer.reason or "" for answer in every if answer.reward is None)),
        stranger_unscored=dict(strange),
        qualities=tuple(QualityLevel.of(quality, figures) for quality in rated.qualities),
    )


def _gain(before: RatedAnswers, after: RatedAnswers, figures: RowFigures) -> TrainingGain:
    base, last = before.stranger_rewards, after.stranger_rewards
    stranger, identity = None, None
    if base is not None and last is not None:
        stranger = figures.reward_gain(last, base)
        identity = figures.reward_gain(after.rewards - before.rewards, last - base)
    gains = []
    for trained, untrained in zip(after.qualities, before.qualities, strict=True):
        gain = figures.gain(trained.means, untrained.means, trained.mirrors)
        gains.append(QualityGain(quality=trained.quality, gain=gain))
    return TrainingGain(
        reward=figures.reward_gain(after.rewards, before.rewards),
        stranger_reward=stranger,
        identity=identity,
        qualities=tuple(with_holm(gains, [gain.gain.p for gain in gains])),
    )


def _fits(evaluations: Sequence[PolicyEvaluation]) -> tuple[GainFit, ...]:
    curves = {"reward": [evaluation.reward.value for evaluation in evaluations]}
    for k, level in enumerate(evaluations[0].qualities):
        curves[level.quality] = [evaluation.qualities[k].mean.value for evaluation in evaluations]
    kls = [evaluation.kl for evaluation in evaluations]
    levels = {name: np.array(curve, dtype=np.float64) for name, curve in curves.items()}
    fits = (fit_gain(name, kls, list(level - level[0])) for name, level in levels.items())
    return tuple(fit for fit in fits if fit is not None)


def _table(pairs: Dataset, evaluations: Sequence[RatedAnswers]) -> ValueTable:
    table = ValueTable(pairs)
    for rated in evaluations:
        table.add(ValueColumn(cell=0, measure="reward", setting=rated.after), rated.rewards)
    for rated in evaluations:
        if rated.stranger_rewards is not None:
            measure = "reward, reading a stranger"
            column = ValueColumn(cell=0, measure=measure, setting=rated.after)
            table.add(column, rated.stranger_rewards)
    for rated in evaluations:
        for quality in rated.qualities:
            table.rate(quality, 0, rated.after)
    return table


LEAST = 3
"""Points beside the start that two coefficients are fitted to."""


def gain_at(kl: float, alpha: float, beta: float) -> float:
    """Return R(d) = d (α − β log d), d = √KL; 0 at the start.

    >>> gain_at(0.0, 1.0, 0.5), gain_at(1.0, 1.0, 0.5)
    (0.0, 1.0)
    """
    distance = math.sqrt(kl)
    return distance * (alpha - beta * math.log(distance)) if distance else 0.0


def fit_gain(of: str, kls: Sequence[float], gains: Sequence[float]) -> GainFit | None:
    """Return the least squares fit of R to gains at some KL (Gao et al. 2023, arXiv 2210.10760).

    R = α d − β d log d is linear in its coefficients. Points at KL 0 say nothing of them; None
    where fewer than three are left, or where all have one KL. With β > 0 R is highest at
    d = exp(α / β − 1), which is left out beyond the largest KL. `kls` are in nats.

    >>> points = [0.25, 1.0, 4.0, 9.0]
    >>> fit = fit_gain("reward", points, [gain_at(kl, 2.0, 1.0) for kl in points])
    >>> round(fit.alpha, 6), round(fit.beta, 6), round(fit.peak_kl, 4)
    (2.0, 1.0, 7.3891)
    >>> fit_gain("reward", points[:3], [gain_at(kl, 2.0, 1.0) for kl in points[:3]]).peak_kl
    """
    points = [
        (math.sqrt(kl), gain)
        for kl, gain in zip(kls, gains, strict=True)
        if kl > 0 and not math.isnan(gain)
    ]
    if len(points) < LEAST:
        return None
    distance, gain = np.array(points).T
    terms = np.stack([distance, -distance * np.log(distance)], axis=1)
    (alpha, beta), _, rank, _ = np.linalg.lstsq(terms, gain)
    if rank < 2:
        return None
    exponent = 2 * (alpha / beta - 1) if beta > 0 else math.inf
    peak = math.exp(exponent) if exponent <= math.log(max(kls)) else None
    return GainFit(of=of, alpha=float(alpha), beta=float(beta), peak_kl=peak)
