"""The plan of a training run, and all that its numbers depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from palate.answers import ShownParts, policy_prompt
from palate.data import content_hash
from palate.learning.recipes.tuning import Lora
from palate.models import ModelFolder
from palate.quality import QualityMetric
from palate.records import Context, Message, Settings, components_of, info_of
from palate.rewards import Reward
from palate.runs import Manifest
from palate.trainers.algorithms import PolicyTraining
from palate.trainers.held_out_users.evaluating import HeldOut
from palate.trainers.settings import EvaluationOptions, RewardOptions, TrainedPolicy
from palate.trainers.split import UserSplit

KIND = "ppo"
NO_STRANGER = (
    "no reward that reads a stranger: strangers of a personal scorer of vectors vote on pairs and "
    "rate no single answer."
)
Messages = tuple[Message, ...]


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
    heard: tuple[str, ...] = ()
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

    def held_out(self, ids: Mapping[str, tuple[int, ...]]) -> HeldOut:
        """Return the held-out rows, given each prompt as ids."""
        prompts = self.held_out_prompts
        return HeldOut(
            rows=tuple(prompts),
            prompts=tuple(ids[row] for row in prompts),
            shown=tuple(" ".join(turn.content for turn in it) for it in prompts.values()),
            n=self.evaluation.n,
            reward=self.held_out_reward,
            stranger_reward=self.stranger_reward,
        )

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
        notes = (*self.heard, *self.reward.info.notes)
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
        return Manifest.of(
            KIND,
            {
                "benchmark": train.name,
                "name": f"{self.policy.spec} {self.recipe.algorithm} {self.reward.spec} "
                f"{self.reward.context.spec}",
                "policy": self.model.content,
                "scorer": self.reward.spec,
                "fingerprints": list(self.fingerprints),
                "policy_context": self.policy_context.spec,
                "context": self.reward.context.spec,
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
            },
            details=tuple(measure.details for measure in self.measures),
        )
