"""palate ppo: train a policy on a scorer's reward."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from palate.cli import options as flags
from palate.cli.compute_options import Computing
from palate.cli.console import bars_of, show
from palate.cli.data_options import LoadingWithChoices
from palate.cli.flatten import flatten_options
from palate.reports import Form
from palate.reports.kinds.ppo import tables as ppo_tables
from palate.reports.plot import plot
from palate.trainers.algorithms import PolicyTraining
from palate.trainers.reward_function import read_missing_eos
from palate.trainers.settings import EvaluationOptions, RewardOptions
from palate.uses.ppo import ppo as train

if TYPE_CHECKING:
    from palate.learning.recipes.tuning import Lora

_held_out = partial(typer.Option, rich_help_panel="Held-out users")
_training = partial(typer.Option, rich_help_panel="Training")
_reward = partial(typer.Option, rich_help_panel="Reward")
DEFAULT, EVALUATION, REWARD = PolicyTraining(), EvaluationOptions(), RewardOptions()


@dataclass(frozen=True)
class TrainedPolicyOptions:
    """Who is trained, on what, and what it is shown."""

    policy: Annotated[
        str,
        typer.Option(
            "-p",
            "--policy",
            rich_help_panel="What is run",
            help=f"Model that is trained, with ?max_tokens= ({DEFAULT.max_new_tokens}).",
        ),
    ]
    scorer: flags.OneScorer
    context: flags.OneContext = "none"
    policy_context: Annotated[
        str, typer.Option(rich_help_panel="What is run", help="What the policy is shown.")
    ] = "none"


@dataclass(frozen=True)
class HeldOutOptions:
    """Who is evaluated, and by what."""

    held_out: Annotated[int, _held_out(help="Users not trained on.")] = EVALUATION.held_out
    evaluate_on: Annotated[
        str | None, _held_out(help="Benchmark or file of other users, in place of --held-out.")
    ] = None
    n: Annotated[int, _held_out("-n", help="Answers to a held-out row.")] = EVALUATION.n
    evaluations: Annotated[int, _held_out(help="Evaluations after the start's.")] = (
        EVALUATION.evaluations
    )
    quality: Annotated[
        list[str] | None,
        _held_out("-q", "--quality", help="Measure of quality; may be repeated."),
    ] = None
    contrast: Annotated[
        bool,
        _held_out("--contrast", help="Also quality less the mirrored user's."),
    ] = False

    def options(self) -> EvaluationOptions:
        """Return them checked."""
        return EvaluationOptions(self.held_out, self.n, self.evaluations, self.contrast)


@dataclass(frozen=True)
class UpdateOptions:
    """How the policy is trained."""

    algorithm: Annotated[
        Literal["ppo", "rloo", "grpo"], _training(help="How rewards become gradients.")
    ] = DEFAULT.algorithm
    iterations: Annotated[int, _training(help="Rounds of answers.")] = DEFAULT.updates
    rollout_batch: Annotated[int, _training(help="Answers of a round.")] = DEFAULT.answers
    answers_per_prompt: Annotated[
        int | None,
        _training(help="Answers to one prompt in a round.", show_default="1 with ppo, else 8"),
    ] = None
    micro_batch: Annotated[int, _training(help="Most answers of one pass.")] = (
        DEFAULT.answers_at_once
    )
    epochs: Annotated[int, _training(help="Times a round is learned from.")] = DEFAULT.epochs
    minibatches: Annotated[int, _training(help="Steps of an epoch.")] = DEFAULT.minibatches
    learning_rate: Annotated[float, _training(help="Its peak.")] = DEFAULT.learning_rate
    warmup: Annotated[
        float, _training(help="Share of the steps in which the learning rate rises.")
    ] = DEFAULT.warmup
    kl: Annotated[float, _training(help="Cost of a nat of KL.")] = DEFAULT.kl_coefficient
    kl_target: Annotated[
        float | None, _training(help="KL of an answer that --kl adapts to (ppo).")
    ] = None
    clip_range: Annotated[
        float, _training(help="How far a probability may move in one update.")
    ] = DEFAULT.clip_range
    gae_lambda: Annotated[float, _training(help="How far an advantage looks ahead (ppo).")] = (
        DEFAULT.gae_lambda
    )
    value_learning_rate: Annotated[float, _training(help="Learning rate of the critic (ppo).")] = (
        DEFAULT.value_learning_rate
    )
    lora: Annotated[int | None, _training(help="Rank of adapters.")] = None
    save_every: Annotated[int | None, _training(help="Updates between checkpoints.")] = (
        DEFAULT.save_every
    )
    tensorboard: Annotated[bool, _training("--tensorboard", help="Also log for TensorBoard.")] = (
        False
    )

    def recipe(self) -> PolicyTraining:
        """Return them checked; raises `UsageError`."""
        return PolicyTraining(
            algorithm=self.algorithm,
            updates=self.iterations,
            answers=self.rollout_batch,
            answers_per_prompt=self.answers_per_prompt,
            answers_at_once=self.micro_batch,
            epochs=self.epochs,
            minibatches=self.minibatches,
            learning_rate=self.learning_rate,
            warmup=self.warmup,
            kl_coefficient=self.kl,
            kl_target=self.kl_target,
            clip_range=self.clip_range,
            gae_lambda=self.gae_lambda,
            value_learning_rate=self.value_learning_rate,
            save_every=self.save_every,
        )

    def adapters(self) -> Lora | None:
        """Return the adapters that are trained; None for all weights."""
        from palate.learning.recipes.tuning import Lora

        return None if self.lora is None else Lora(rank=self.lora, alpha=2 * self.lora, dropout=0.0)


@dataclass(frozen=True)
class RewardFlags:
    """What becomes of the scorer's numbers."""

    raw: Annotated[
        bool,
        _reward(
            "--raw", help="The scorer's own numbers, not deviations of the untrained policy's."
        ),
    ] = False
    missing_eos: Annotated[
        str, _reward(help="What a cut-off answer gets: score, mask or a number.")
    ] = "score"
    max_unscored: Annotated[
        float, _reward(help="Share of a round without reward that ends the run.")
    ] = REWARD.max_unscored

    def options(self) -> RewardOptions:
        """Return them checked."""
        return RewardOptions(
            "raw" if self.raw else "base", read_missing_eos(self.missing_eos), self.max_unscored
        )


@flatten_options
def ppo(
    benchmark: Annotated[
        str, flags.benchmark_option(rich_help_panel="Data", help="Benchmark or file of questions.")
    ],
    *,
    what: TrainedPolicyOptions,
    held_out: HeldOutOptions,
    training: UpdateOptions,
    rewarding: RewardFlags,
    output: flags.Root = Path("runs"),
    picture: flags.Picture = None,
    loading: LoadingWithChoices,
    computing: Computing,
    form: flags.Format = Form.TABLE,
) -> None:
    """Train a policy on a scorer's reward, and evaluate it on held-out users.

    Held-out users are evaluated before, during and after. A stopped run goes on.
    """
    settings = computing.settings()
    others = [] if held_out.evaluate_on is None else [held_out.evaluate_on]
    loaded = loading.load_all([benchmark, *others], computing.seed)
    with computing.session() as session, bars_of(session.ledger) as display:
        result = train(
            loaded[0],
            what.policy,
            what.scorer,
            what.context,
            held_out.quality or (),
            recipe=training.recipe(),
            policy_context=what.policy_context,
            evaluate_on=loaded[-1] if others else None,
            evaluation=held_out.options(),
            rewarding=rewarding.options(),
            lora=training.adapters(),
            tensorboard=training.tensorboard,
            root=output,
            session=session,
            settings=settings,
            retry_unscored=computing.retry_unscored,
            start=display.start,
        )
    show(ppo_tables(result), form, result.document())
    if picture is not None:
        plot(result, picture)
