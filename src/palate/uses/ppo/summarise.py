"""From held-out answers to figures: levels by evaluation, and gains from first to last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from palate.benchmarks import Dataset
from palate.metrics.arrays import row_means
from palate.quality import SampleQuality
from palate.rewards import Scale
from palate.runs import with_holm
from palate.trainers.held_out_users.evaluating import HeldOutAnswer, HeldOutAnswers
from palate.uses.ppo.gain_fit import fit_gain
from palate.uses.ppo.result import (
    GainFit,
    PolicyEvaluation,
    QualityGain,
    QualityLevel,
    TrainingGain,
)
from palate.uses.result import ValueColumn, ValueTable
from palate.uses.units import Doubles, RowFigures


@dataclass(frozen=True, eq=False)
class RatedAnswers:
    """The held-out answers of one evaluation, with their qualities."""

    answers: HeldOutAnswers
    qualities: Sequence[SampleQuality]
    scale: Scale | None
    """That rewards are brought to."""
    reads_stranger: bool
    """Whether the answers also have the reward of a scorer that reads a stranger."""

    def rewards(self, *, stranger: bool = False) -> Doubles | None:
        """Return the mean reward of each row's answers; None where no stranger is read."""
        if stranger and not self.reads_stranger:
            return None
        each = [
            [answer.stranger_reward if stranger else answer.reward for answer in row.answers]
            for row in self.answers.rows
        ]
        numbers = np.array(each, dtype=np.float64)  # None becomes NaN
        if self.scale is not None:
            numbers = (numbers - self.scale.mean) / self.scale.deviation
        means: Doubles = row_means(numbers)
        return means

    @property
    def quality_means(self) -> list[Doubles]:
        """Of each measure, the mean quality of each row's answers."""
        return [row_means(rated.values) for rated in self.qualities]


@dataclass(frozen=True, eq=False)
class Tabulated:
    """All that a result holds of the evaluations."""

    evaluations: tuple[PolicyEvaluation, ...]
    gain: TrainingGain
    fits: tuple[GainFit, ...]
    table: ValueTable


def tabulate(pairs: Dataset, rated: Sequence[RatedAnswers], seed: int) -> Tabulated:
    """Return the figures of all evaluations, the untrained policy's first."""
    figures = RowFigures.of(pairs, seed)
    evaluations = tuple(_evaluation(each, figures) for each in rated)
    return Tabulated(
        evaluations,
        _gain(rated[0], rated[-1], figures),
        _fits(rated, evaluations),
        _table(pairs, rated),
    )


def _evaluation(rated: RatedAnswers, figures: RowFigures) -> PolicyEvaluation:
    every, stranger = rated.answers.every, rated.rewards(stranger=True)
    rewards = rated.rewards()
    assert rewards is not None
    tokens = sum(answer.tokens for answer in every)
    copied = [answer.copied for answer in every if answer.copied is not None]
    unscored = Counter(answer.reason or "" for answer in every if answer.reward is None)
    return PolicyEvaluation(
        update=rated.answers.update,
        reward=figures.reward_mean(rewards),
        stranger_reward=None if stranger is None else figures.reward_mean(stranger),
        kl=_mean(every, lambda answer: answer.kl),
        tokens=_mean(every, lambda answer: answer.tokens),
        ended=_mean(every, lambda answer: answer.ended),
        entropy=float(sum(answer.entropy for answer in every) / tokens),
        distinct=len({answer.text for answer in every}) / len(every),
        copied=float(np.mean(copied)) if copied else None,
        unscored=dict(unscored),
        stranger_unscored=dict(
            Counter(answer.stranger_reason for answer in every if answer.stranger_reason)
        ),
        qualities=tuple(
            QualityLevel(
                quality=of.quality,
                surrogate=of.surrogate,
                contrast=of.mirrors is not None,
                mean=figures.mean(means, of.mirrors),
                unrated=of.reasons,
            )
            for of, means in zip(rated.qualities, rated.quality_means, strict=True)
        ),
    )


def _gain(before: RatedAnswers, after: RatedAnswers, figures: RowFigures) -> TrainingGain:
    rewards = before.rewards(), after.rewards()
    strangers = before.rewards(stranger=True), after.rewards(stranger=True)
    assert rewards[0] is not None and rewards[1] is not None
    moved, stranger, identity = rewards[1] - rewards[0], None, None
    if strangers[0] is not None and strangers[1] is not None:
        stranger = figures.reward_gain(strangers[1], strangers[0])
        identity = figures.reward_gain(moved, strangers[1] - strangers[0])
    gains = [
        QualityGain(quality=of.quality, gain=figures.gain(there, base, of.mirrors))
        for of, there, base in zip(
            after.qualities, after.quality_means, before.quality_means, strict=True
        )
    ]
    return TrainingGain(
        reward=figures.reward_gain(rewards[1], rewards[0]),
        stranger_reward=stranger,
        identity=identity,
        qualities=tuple(with_holm(gains, [it.gain.p for it in gains])),
    )


def _fits(
    rated: Sequence[RatedAnswers], evaluations: Sequence[PolicyEvaluation]
) -> tuple[GainFit, ...]:
    curves = {"reward": [each.reward.value for each in evaluations]} | {
        of.quality: [each.qualities[k].mean.value for each in evaluations]
        for k, of in enumerate(rated[0].qualities)
    }
    kls = [each.kl for each in evaluations]
    levels = {name: np.array(curve, dtype=np.float64) for name, curve in curves.items()}
    fits = (fit_gain(name, kls, list(level - level[0])) for name, level in levels.items())
    return tuple(fit for fit in fits if fit is not None)


def _table(pairs: Dataset, rated: Sequence[RatedAnswers]) -> ValueTable:
    table = ValueTable(pairs)
    for measure, stranger in (("reward", False), ("reward, reading a stranger", True)):
        for evaluation in rated:
            rewards = evaluation.rewards(stranger=stranger)
            if rewards is not None:
                column = ValueColumn(cell=0, measure=measure, setting=_after(evaluation))
                table.add(column, rewards)
    for evaluation in rated:
        for of, means in zip(evaluation.qualities, evaluation.quality_means, strict=True):
            table.add(
                ValueColumn(
                    cell=0,
                    measure=of.quality,
                    setting=_after(evaluation),
                    surrogate=of.surrogate,
                    couples=of.mirrors is not None,
                ),
                means,
            )
    return table


def _after(rated: RatedAnswers) -> str:
    return f"after {rated.answers.update} updates"


def _mean(every: Sequence[HeldOutAnswer], of: Callable[[HeldOutAnswer], float]) -> float:
    return float(np.mean([of(answer) for answer in every]))
