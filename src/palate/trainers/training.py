"""Run a plan through TRL's trainer: prompts, scale of the reward, checkpoints, trained weights."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from palate.engines import ChatTemplate
from palate.engines.local.memory import within_memory
from palate.engines.text.chat_template import ids_of
from palate.engines.text.reader import window_of
from palate.errors import ModelError, RunError, writing
from palate.evaluation import Start
from palate.files import write_json
from palate.learning.recipes.base import Base, load_policy
from palate.learning.recipes.output import new_folder
from palate.learning.recipes.saving import named, save, saving
from palate.models import import_torch, load_weights, merge
from palate.records import Progress
from palate.rewards import Scale, row_requests
from palate.seeding import shuffled
from palate.specs import Reference
from palate.trainers.algorithms import build_trainer, last_checkpoint
from palate.trainers.callback import EvaluationCallback
from palate.trainers.files import CHECKPOINTS, POLICY, SCALE, read_scale
from palate.trainers.held_out_users.answers import AnswerWriter
from palate.trainers.log import TrainingLog
from palate.trainers.plan import Messages, TrainingPlan
from palate.trainers.reward_function import TrainingReward

PROBES, PROBE_ANSWERS = 64, 2
"""Training rows, and answers to each, that the scale of rewards is taken from."""
NAMED = 3


def train_policy(plan: TrainingPlan, folder: Path, start: Start, *, tensorboard: bool) -> None:
    """Train a plan's policy and write it to `folder/policy`, from the last checkpoint if any.

    Raises:
        ModelError: for a policy without a chat template, or prompts that its window does not hold.
        UsageError: where all answers to a row have one reward, or TRL is missing.
        OutsideError: where too many answers have no reward; checkpoints stay.
        ResourceError: where memory or disk run out.
    """
    base = load_policy(plan.model, plan.policy.spec, plan.recipe.seed, plan.settings)
    for note in base.notes:
        if note not in plan.heard:
            logging.getLogger("palate").warning(note)
    template_of_model = base.tokenizer.chat_template
    ask_as_measured(base)
    prompts, held_out_prompts = plan.prompts, plan.held_out_prompts
    ids = _prompt_ids(plan, base, {**prompts, **held_out_prompts})
    log = TrainingLog(folder, tensorboard=tensorboard)
    function = TrainingReward(
        plan.reward, frozenset(), plan.rewarding.missing_eos, plan.rewarding.max_unscored
    )
    function.tokenizer = base.tokenizer

    def set_scale(writer: AnswerWriter) -> None:
        scale = read_scale(folder)
        if scale is None:
            scale = base_scale(plan, writer, ids, start("scale of the rewards"))
            with writing(folder / SCALE):
                write_json(folder / SCALE, scale.model_dump(mode="json"))
        function.reward = plan.reward.scaled(scale if plan.rewarding.scale == "base" else None)

    callback = EvaluationCallback(
        plan.recipe, function, plan.held_out(ids), plan.updates, log, folder, start, set_scale
    )
    trainer = build_trainer(
        plan.recipe,
        base.model,
        base.tokenizer,
        [{"prompt": _safe(prompt, base.template), "row": row} for row, prompt in prompts.items()],
        function,
        folder / CHECKPOINTS,
        device=plan.device,
        lora=plan.lora,
        callbacks=[callback],
    )
    function.ends = frozenset(trainer.eos_token_ids)
    callback.writer = AnswerWriter(
        trainer, _reference(plan, trainer), plan.recipe.answers, plan.recipe.temperature, plan.seed
    )
    checkpoint = last_checkpoint(folder / CHECKPOINTS)
    if checkpoint is not None and read_scale(folder) is None:
        raise RunError(f"{folder / SCALE}: is missing; remove the folder and run ppo again")
    from palate.trainers.algorithms.trl_hooks import head_reads_answers_alone

    with (
        log,
        _without_warnings(),
        head_reads_answers_alone(),
        saving(f"{folder}: a checkpoint"),
        within_memory(
            f"out of memory at {plan.recipe.at_once} answers a pass; lower --micro-batch"
        ),
    ):
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    model = trainer.accelerator.unwrap_model(trainer.model)
    if plan.lora is not None:
        model = merge(model)
    facts = {
        "base": {
            "reference": named(Reference.parse(str(plan.policy.reference))),
            "content": plan.model.content,
        },
        "scorer": plan.reward.spec,
        "context": plan.reward.context.spec,
        "recipe": plan.recipe_document,
        "lora": None if plan.lora is None else asdict(plan.lora),
    }
    base.tokenizer.chat_template = template_of_model
    with new_folder(folder / POLICY) as made:
        save(model.to("cpu"), base.tokenizer, made, facts)


def ask_as_measured(base: Base) -> None:
    """Let TRL ask a policy, and end its answers, as it is measured: behind no thought."""
    base.tokenizer.chat_template = base.template.answering
    settings = base.model.generation_config
    named = ids_of(settings.eos_token_id)
    if (ends := base.template.ends(named)) != named:
        settings.eos_token_id = sorted(ends)
        more = ", ".join(base.tokenizer.convert_ids_to_tokens(sorted(ends - named)))
        logging.getLogger("palate").info("an answer also ends at %s", more)


def base_scale(
    plan: TrainingPlan,
    writer: AnswerWriter,
    ids: Mapping[str, tuple[int, ...]],
    progress: Progress,
) -> Scale:
    """Return mean and deviation of the rewards of the untrained policy's answers.

    To some training rows, drawn by the seed. Raises `UsageError` where each row's answers have one
    reward: nothing could be learned.
    """
    rows = shuffled([row.id for row in plan.split.train.rows], "probes", plan.seed)[:PROBES]
    written = writer.write([ids[row] for row in rows], PROBE_ANSWERS, progress)
    values = plan.reward.values(row_requests(rows, written))
    scale = Scale.of([[value.value for value in of_row] for of_row in values])
    return scale.model_copy(update={"policy": plan.policy.spec})


def _safe(prompt: Messages, template: ChatTemplate) -> list[dict[str, str]]:
    """Return a prompt as TRL reads it; no text of a user opens or closes a turn."""
    return [{"role": turn.role, "content": template.safe(turn.content)} for turn in prompt]


def _prompt_ids(
    plan: TrainingPlan, base: Base, prompts: Mapping[str, Messages]
) -> dict[str, tuple[int, ...]]:
    """Return each prompt as ids, as TRL makes them; all must leave room for an answer."""
    ids = {row: base.template.answer_prompt(prompt) for row, prompt in prompts.items()}
    window = window_of(base.model.config.get_text_config(), base.tokenizer)
    if window is not None:
        room = window - plan.recipe.max_new_tokens
        long = [row for row, each in ids.items() if len(each) > room]
        if long:
            rows = ", ".join([*long[:NAMED], *(["…"] if len(long) > NAMED else [])])
            raise ModelError(
                f"{plan.policy.spec}: {len(long)} prompts leave no room for "
                f"{plan.recipe.max_new_tokens} tokens in {window} ({rows}); show the policy less "
                "(--policy-context), or leave the rows out"
            )
    return ids


def _reference(plan: TrainingPlan, trainer: Any) -> Any:
    """Return the frozen starting policy; None where it is the policy without its adapters."""
    if plan.lora is not None or trainer.ref_model is not None:
        return trainer.ref_model
    # No KL in the reward: TRL keeps none.
    path, dtype = plan.model.path, import_torch().float32
    model = load_weights(plan.policy.spec, "causal", path, [], dtype=dtype)
    return model.to(trainer.accelerator.device).eval()


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Silence TRL on answers without a reward, which are counted here, and on its own old names."""
    log = logging.getLogger("trl")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        log.setLevel(before)
