"""Train a policy on a scorer's reward, and evaluate it on held-out users on the way."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path

from palate.answers import shown_to_policy
from palate.benchmarks import Data, dataset_of
from palate.contexts import shows
from palate.errors import RunError
from palate.evaluation import Start, Work
from palate.learning import Lora
from palate.models import choose_device
from palate.quality import QualityMetric, rate_by_all, usable_qualities
from palate.records import Judge, Settings
from palate.records.arguments import checked
from palate.rewards import Reward, reward
from palate.runs import SUMMARY, locked
from palate.scorers import ScorerInContext
from palate.session import Session
from palate.trainers.algorithms import PolicyTraining
from palate.trainers.held_out import HeldOutAnswers, UserSplit, hold_out, refuse_shared
from palate.trainers.plan import (
    CHECKPOINTS,
    POLICY,
    EvaluationOptions,
    RewardOptions,
    TrainingPlan,
    read_policy,
    read_scale,
)
from palate.uses.ppo_result import (
    PolicyTrainingResult,
    PolicyTrainingSummary,
    RatedAnswers,
    tabulate,
)
from palate.uses.result import Cell


@checked
def ppo(
    benchmark: Data,
    policy: str,
    scorer: str,
    context: str = "none",
    qualities: str | Sequence[str | QualityMetric] = (),
    *,
    recipe: PolicyTraining | None = None,
    policy_context: str = "none",
    evaluate_on: Data | None = None,
    evaluation: EvaluationOptions | None = None,
    rewarding: RewardOptions | None = None,
    lora: Lora | None = None,
    tensorboard: bool = False,
    root: Path | str = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    retry_unscored: bool = False,
    start: Start | None = None,
) -> PolicyTrainingResult:
    """Train a policy by PPO, RLOO or GRPO on a scorer's reward; return what held-out users get.

    `context` is what the scorer is shown of the user, `policy_context` what the policy is shown.
    The rows of some users are held out, or those of `evaluate_on` are evaluated; no user is in
    both. Held-out answers are written on the same draws before, during and after training, and
    gains are paired by user and question.

    The result is kept at `root/<benchmark>/ppo/<name>-<8 hex>`, beside `log.jsonl`, the answers
    and the trained policy (`policy/`, a folder that any command reads). A run that was stopped goes
    on from its last checkpoint.

    Raises:
        UsageError: for what cannot be a reward (a judge, an oracle, equal rewards for all of a
            row's answers), a policy that cannot be trained, and for users in both parts.
        OutsideError: where more answers than allowed have no reward.
        And what building, scoring and rating raise.

    Example:
        >>> ppo("tasting", "api:gpt", "longest")
        Traceback (most recent call last):
        palate.errors.UsageError: -p api:gpt: an endpoint's weights cannot be trained; name a model
    """
    work = Work.of(session, settings, root, retry_unscored=retry_unscored, start=start)
    session, settings = work.session, work.settings
    evaluation, rewarding = evaluation or EvaluationOptions(), rewarding or RewardOptions()
    trained, recipe = read_policy(policy, recipe or PolicyTraining(), settings)
    pairs, seed = dataset_of(benchmark, settings.seed), settings.seed
    if evaluate_on is None:
        split = hold_out(pairs, evaluation.held_out, seed, couples=evaluation.contrast)
    else:
        split = UserSplit(pairs, dataset_of(evaluate_on, seed))
    refuse_shared(split)
    measures = usable_qualities(qualities, split.held_out, work, contrast=evaluation.contrast)
    policy_shown = work.context(policy_context)
    rewarded = partial(reward, scorer, context, session=session, settings=settings)
    training = rewarded(benchmark=pairs)
    held_out = training if evaluate_on is None else rewarded(benchmark=split.held_out)
    reader = session.reader(trained.reference, settings)
    plan = TrainingPlan(
        policy=trained,
        model=session.folder(trained.reference),
        recipe=recipe,
        lora=lora,
        split=split,
        reward=training,
        held_out_reward=held_out,
        stranger_reward=_stranger(scorer, held_out, work),
        policy_context=policy_shown,
        shown=(
            shown_to_policy(policy_shown, split.train, seed),
            shown_to_policy(policy_shown, split.held_out, seed),
        ),
        measures=measures,
        evaluation=evaluation,
        rewarding=rewarding,
        device=choose_device(settings.device),
        seed=seed,
        settings=settings,
        template=reader.template_details,
        policy_notes=reader.notes,
    )
    manifest = plan.manifest()
    folder = manifest.folder(Path(root))
    with locked(folder):
        manifest.write(folder)
        if (folder / SUMMARY).is_file():
            return PolicyTrainingResult.read(folder)
        if not (folder / POLICY).is_dir():
            from palate.trainers.training import train_policy

            train_policy(plan, folder, work.start, tensorboard=tensorboard)
        result = _result(plan, folder, work)
        result.save()
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    return result


def _stranger(scorer: str, held_out: Reward, work: Work) -> Reward | None:
    """Return the reward that reads a stranger in place of the user; None where there is none.

    A scorer that reads no user has none, nor one that reads a stranger anyway. The strangers of a
    personal scorer of vectors vote on pairs and rate no single answer.
    """
    read = held_out.context
    if not held_out.own_state and (read.empty or shows(read.spec) == "stranger"):
        return None
    other = ScorerInContext(scorer, read.spec).of_stranger(by_state=held_out.own_state)
    if isinstance(work.scorer(other.scorer), Judge):
        return None
    return reward(*other, benchmark=held_out.data, session=work.session, settings=work.settings)


def _result(plan: TrainingPlan, folder: Path, work: Work) -> PolicyTrainingResult:
    """Rate the answers of all evaluations, and return their figures."""
    scale = read_scale(folder)
    written = [HeldOutAnswers.read(folder, update) for update in plan.updates]
    if scale is None or None in written:
        raise RunError(f"{folder}: files of the run are missing; remove it and run ppo again")
    pairs, scaled = plan.split.held_out, plan.rewarding.scale == "base"
    rated = []
    for answers in filter(None, written):
        samples, of = answers.samples(plan.policy.spec), f" after {answers.update} updates"
        contrast = plan.evaluation.contrast
        qualities = rate_by_all(plan.measures, samples, pairs, work, contrast=contrast, of=of)
        stranger = plan.stranger_reward is not None
        rated.append(RatedAnswers(answers, qualities, scale if scaled else None, stranger))
    figures = tabulate(pairs, rated, plan.seed)
    train = plan.split.train.rows
    summary = PolicyTrainingSummary(
        benchmark=plan.split.train.name,
        held_out=pairs.name,
        policy=plan.policy.spec,
        policy_context=plan.policy_context.spec,
        recipe=plan.recipe_document,
        lora=None if plan.lora is None else asdict(plan.lora),
        scale=scale,
        scaled=scaled,
        missing_eos=plan.rewarding.missing_eos,
        trained_rows=len(train),
        trained_users=len({row.user_id for row in train}),
        held_out_users=len({row.user_id for row in pairs.rows}),
        shared_questions=plan.split.shared_questions,
        n=plan.evaluation.n,
        start=rated[0].answers.samples(plan.policy.spec).content,
        evaluations=figures.evaluations,
        gain=figures.gain,
        fits=figures.fits,
        cells=(
            Cell(
                scorer=plan.reward.spec,
                context=plan.reward.context.spec,
                models=plan.reward_models,
                fingerprints=plan.fingerprints,
                notes=plan.notes,
            ),
        ),
        columns=tuple(figures.table.columns),
    )
    return PolicyTrainingResult(summary, figures.table.rows(), folder)
