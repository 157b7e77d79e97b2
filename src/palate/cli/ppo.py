"""palate ppo: train a policy on a scorer's reward."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from palate.cli import options as flags
from palate.cli.console import show_result
from palate.cli.declare import option
from palate.cli.options import Computing, LoadingWithChoices
from palate.reports import Form
from palate.trainers.algorithms import PolicyTraining
from palate.trainers.plan import EvaluationOptions, RewardOptions, read_missing_eos
from palate.uses.ppo import ppo as train

if TYPE_CHECKING:
    from palate.learning import Lora

_held_out = partial(option, panel="Held-out users")
_training = partial(option, panel="Training")
_reward = partial(option, panel="Reward")
DEFAULT, EVALUATION, REWARD = PolicyTraining(), EvaluationOptions(), RewardOptions()


@dataclass(frozen=True)
class TrainedPolicyOptions:
    """Who is trained, on what, and what it is shown."""

    policy: str = flags.run(
        ...,
        f"Model that is trained, with ?max_tokens= ({DEFAULT.max_new_tokens}).",
        "-p",
        "--policy",
    )
    scorer: str = flags.SCORER
    context: str = flags.CONTEXT
    policy_context: str = flags.run("none", "What the policy is shown.")


@dataclass(frozen=True)
class HeldOutOptions:
    """Who is evaluated, and by what."""

    held_out: int = _held_out(EVALUATION.held_out, "Users not trained on.")
    evaluate_on: str | None = _held_out(
        None, "Benchmark or file of other users, in place of --held-out."
    )
    n: int = _held_out(EVALUATION.n, "Answers to a held-out row.", "-n")
    evaluations: int = _held_out(EVALUATION.evaluations, "Evaluations after the start's.")
    qualities: list[str] = _held_out([], "Measure of quality; may be repeated.", "-q", "--quality")
    contrast: bool = _held_out(False, "Also quality less the mirrored user's.")

    def options(self) -> EvaluationOptions:
        """Return them checked."""
        return EvaluationOptions(self.held_out, self.n, self.evaluations, self.contrast)


@dataclass(frozen=True)
class UpdateOptions:
    """How the policy is trained."""

    algorithm: Literal["ppo", "rloo", "grpo"] = _training(
        DEFAULT.algorithm, "How rewards become gradients."
    )
    updates: int = _training(DEFAULT.updates, "Rounds of answers.", "--iterations")
    answers: int = _training(DEFAULT.answers, "Answers of a round.", "--rollout-batch")
    answers_per_prompt: int | None = _training(
        None, "Answers to one prompt in a round.", show_default="1 with ppo, else 8"
    )
    answers_at_once: int = _training(
        DEFAULT.answers_at_once, "Most answers of one pass.", "--micro-batch"
    )
    epochs: int = _training(DEFAULT.epochs, "Times a round is learned from.")
    minibatches: int = _training(DEFAULT.minibatches, "Steps of an epoch.")
    learning_rate: float = _training(DEFAULT.learning_rate, "Its peak.")
    warmup: float = _training(
        DEFAULT.warmup, "Share of the steps in which the learning rate rises."
    )
    kl_coefficient: float = _training(DEFAULT.kl_coefficient, "Cost of a nat of KL.", "--kl")
    kl_target: float | None = _training(None, "KL of an answer that --kl adapts to (ppo).")
    clip_range: float = _training(
        DEFAULT.clip_range, "How far a probability may move in one update."
    )
    gae_lambda: float = _training(DEFAULT.gae_lambda, "How far an advantage looks ahead (ppo).")
    value_learning_rate: float = _training(
        DEFAULT.value_learning_rate, "Learning rate of the critic (ppo)."
    )
    lora: int | None = _training(None, "Rank of adapters.")
    save_every: int | None = _training(DEFAULT.save_every, "Updates between checkpoints.")
    tensorboard: bool = _training(False, "Also log for TensorBoard.")

    def recipe(self) -> PolicyTraining:
        """Return them checked; raises `UsageError`."""
        beside = ("lora", "tensorboard")
        given = {name: value for name, value in vars(self).items() if name not in beside}
        return PolicyTraining(**given)

    def adapters(self) -> Lora | None:
        """Return the adapters that are trained; None for all weights."""
        from palate.learning import Lora

        return None if self.lora is None else Lora(rank=self.lora, alpha=2 * self.lora, dropout=0.0)


@dataclass(frozen=True)
class RewardFlags:
    """What becomes of the scorer's numbers."""

    raw: bool = _reward(
        False, "The scorer's own numbers, not deviations of the untrained policy's."
    )
    missing_eos: str = _reward("score", "What a cut-off answer gets: score, mask or a number.")
    max_unscored: float = _reward(
        REWARD.max_unscored, "Share of a round without reward that ends the run."
    )

    def options(self) -> RewardOptions:
        """Return them checked."""
        return RewardOptions(
            "raw" if self.raw else "base", read_missing_eos(self.missing_eos), self.max_unscored
        )


def ppo(
    benchmark: str = flags.benchmark(..., "Benchmark or file of questions.", panel="Data"),
    *,
    what: TrainedPolicyOptions,
    held_out: HeldOutOptions,
    training: UpdateOptions,
    rewarding: RewardFlags,
    output: Path = flags.ROOT,
    picture: Path | None = flags.PICTURE,
    loading: LoadingWithChoices,
    computing: Computing,
    form: Form = flags.FORMAT,
) -> None:
    """Train a policy on a scorer's reward, and evaluate it on held-out users.

    Held-out users are evaluated before, during and after. A stopped run goes on.
    """
    others = [] if held_out.evaluate_on is None else [held_out.evaluate_on]
    with computing.on([benchmark, *others], loading, output) as (loaded, work):
        result = train(
            loaded[0],
            what.policy,
            what.scorer,
            what.context,
            held_out.qualities,
            recipe=training.recipe(),
            policy_context=what.policy_context,
            evaluate_on=loaded[-1] if others else None,
            evaluation=held_out.options(),
            rewarding=rewarding.options(),
            lora=training.adapters(),
            tensorboard=training.tensorboard,
            **work,
        )
    show_result(result, form, picture)
