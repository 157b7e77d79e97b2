"""Run a plan through TRL's trainer: prompts, scale of the reward, checkpoints, trained weights."""

from __future__ import annotations

import json
import logging
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

import transformers

from palate.engines import ids_of, window_of, within_memory
from palate.errors import ModelError, RunError, UsageError, writing
from palate.evaluation import Start
from palate.files import write_json, write_whole
from palate.learning.fitting import Base, load_policy
from palate.learning.recipes import named, new_folder, save, saving
from palate.models import import_torch, load_weights, merge
from palate.quality.measure import first_names
from palate.records import Messages, Progress
from palate.rewards import Scale, row_requests
from palate.seeding import shuffled
from palate.specs import Reference
from palate.trainers.algorithms import build_trainer, last_checkpoint
from palate.trainers.answers import AnswerWriter, TrainingReward
from palate.trainers.plan import CHECKPOINTS, POLICY, SCALE, TrainingPlan, read_scale

PROBES, PROBE_ANSWERS = 64, 2
"""Training rows, and answers to each, that the scale of rewards is taken from."""
LEFT_OUT = ("epoch", "num_tokens", "step_time")
"""Of TRL's metrics, those that say nothing of the policy."""


def train_policy(plan: TrainingPlan, folder: Path, start: Start, *, tensorboard: bool) -> None:
    """Train a plan's policy and write it to `folder/policy`, from the last checkpoint if any.

    Raises `ModelError` for a policy without a chat template, or prompts that its window does not
    hold; `UsageError` where all answers to a row have one reward, or TRL is missing; `OutsideError`
    where too many answers have no reward (checkpoints stay); `ResourceError` for memory or disk.
    """
    base = load_policy(plan.model, plan.policy.spec, plan.recipe.seed, plan.settings)
    for note in base.notes:
        if note not in plan.policy_notes:
            logging.getLogger("palate").warning(note)
    template_of_model = base.tokenizer.chat_template
    ask_as_measured(base)
    prompts = plan.prompts
    ids = _prompt_ids(plan, base, {**prompts, **plan.held_out_prompts})
    log = TrainingLog(folder, tensorboard=tensorboard)
    function = TrainingReward(plan.reward, frozenset(), plan.rewarding, base.tokenizer)
    rows: list[dict[str, Any]] = []
    for row, prompt in prompts.items():  # no text of a user opens or closes a turn
        safe = [{"role": t.role, "content": base.template.safe(t.content)} for t in prompt]
        rows.append({"prompt": safe, "row": row})
    callback = EvaluationCallback(plan, ids, function, log, folder, start)
    trainer = build_trainer(
        plan.recipe,
        base.model,
        base.tokenizer,
        rows,
        function,
        folder / CHECKPOINTS,
        device=plan.device,
        lora=plan.lora,
        callbacks=[callback],
    )
    function.ends = frozenset(trainer.eos_token_ids)
    recipe, reference_model = plan.recipe, _reference(plan, trainer)
    callback.writer = AnswerWriter(
        trainer, reference_model, recipe.answers, recipe.temperature, plan.seed
    )
    checkpoint = last_checkpoint(folder / CHECKPOINTS)
    if checkpoint is not None and read_scale(folder) is None:
        raise RunError(f"{folder / SCALE}: is missing; remove the folder and run ppo again")
    from palate.trainers.trl_hooks import head_reads_answers_alone

    with (
        log,
        _without_warnings(),
        head_reads_answers_alone(),
        saving(f"{folder}: a checkpoint"),
        within_memory(f"out of memory at {recipe.at_once} answers a pass; lower --micro-batch"),
    ):
        trainer.train(resume_from_checkpoint=None if checkpoint is None else str(checkpoint))
    model = trainer.accelerator.unwrap_model(trainer.model)
    if plan.lora is not None:
        model = merge(model)
    reference = named(Reference.parse(str(plan.policy.reference)))
    facts = {
        "base": {"reference": reference, "content": plan.model.content},
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
            raise ModelError(
                f"{plan.policy.spec}: {len(long)} prompts leave no room for "
                f"{plan.recipe.max_new_tokens} tokens in {window} ({first_names(long)}); show the "
                "policy less (--policy-context), or leave the rows out"
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


class TrainingLog:
    """A line for each update and each look at held-out users.

    A line is `{"update": …, "train": {…}}` or `{"update": …, "held_out": {…}}`. Rewards of both are
    in the unit that is trained on. Where a run goes on from a checkpoint, the lines of later
    updates go: they are written again. Raises `UsageError` for TensorBoard that is not installed.
    """

    def __init__(self, folder: Path, *, tensorboard: bool = False) -> None:
        self.path, self._writer = folder / "log.jsonl", None
        if tensorboard:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise UsageError("--tensorboard needs pip install tensorboard") from error
            self._writer = SummaryWriter(str(folder / "tensorboard"))

    def cut_back(self, update: int) -> None:
        """Take out what was logged after so many updates."""
        if self.path.is_file():
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            with writing(self.path):
                write_whole(self.path, [line for line in lines if _update_of(line) <= update])

    def write(self, update: int, part: str, values: Mapping[str, Any]) -> None:
        """Append one line; raises `ResourceError` where the disk refuses."""
        line = json.dumps({"update": update, part: dict(values)}, ensure_ascii=False)
        with writing(self.path), self.path.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        if self._writer is not None:
            for name, value in values.items():
                if isinstance(value, int | float):
                    self._writer.add_scalar(f"{part}/{name}", float(value), update)
            self._writer.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._writer is not None:
            self._writer.close()


def _update_of(line: str) -> float:
    try:
        return int(json.loads(line)["update"])
    except (ValueError, KeyError, TypeError):  # cut short by a kill
        return float("inf")


@dataclass(eq=False)
class EvaluationCallback(transformers.TrainerCallback):
    """Evaluates held-out users before, between and after updates; no number of training changes."""

    plan: TrainingPlan
    ids: Mapping[str, tuple[int, ...]]
    """Of the prompt of each row."""
    reward: TrainingReward
    log: TrainingLog
    folder: Path
    start: Start
    writer: AnswerWriter = field(init=False)
    progress: Progress = field(init=False)
    _began: float = field(default_factory=time.monotonic, init=False)

    def on_train_begin(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Evaluate the untrained policy; or take out of the log what is done again."""
        update = self._update(state)
        self.log.cut_back(update if update else -1)
        self._set_scale()
        if not update:
            self._evaluate(0)
        self.progress = self.start(f"updates by {self.plan.recipe.algorithm}")
        self._began = time.monotonic()

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Evaluate the policy after the updates that were asked for."""
        if state.global_step % self.plan.recipe.steps_per_update:
            return
        update = self._update(state)
        self.progress(update, self.plan.recipe.updates)
        if update in self.plan.updates:
            self._evaluate(update)

    def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        """Write what TRL says of an update."""
        logs = more.get("logs") or {}
        if "loss" not in logs:  # the summary at the end of training
            return
        counts = self.reward.counts
        answers = counts["answers"] or 1
        now = time.monotonic()
        values = {
            **{name: value for name, value in logs.items() if name not in LEFT_OUT},
            "missing_eos": counts["missing_eos"] / answers,
            "unscored": counts["unscored"] / answers,
            "seconds": round(now - self._began, 3),
        }
        counts.clear()
        self._began = now
        self.log.write(self._update(state), "train", values)

    def _update(self, state: Any) -> int:
        return int(state.global_step) // self.plan.recipe.steps_per_update

    def _evaluate(self, update: int) -> None:
        began = time.monotonic()
        progress = self.start(f"held-out answers after {update} updates")
        answers = self.plan.held_out_answers(self.ids, self.writer.write, update, progress)
        answers.write(self.folder)
        self.log.write(update, "held_out", answers.means(self.reward.reward.scale))
        self._began += time.monotonic() - began  # `seconds` are those of training

    def _set_scale(self) -> None:
        """Give the reward the scale that the run began with, or measure it."""
        path, plan = self.folder / SCALE, self.plan
        scale = read_scale(self.folder)
        if scale is None:
            scale = self._base_scale()
            with writing(path):
                write_json(path, scale.model_dump(mode="json"))
        self.reward.reward = plan.reward.scaled(scale if plan.rewarding.scale == "base" else None)

    def _base_scale(self) -> Scale:
        """Return mean and deviation of the rewards of the untrained policy's answers.

        To some training rows, drawn by the seed. Raises `UsageError` where each row's answers have
        one reward: nothing could be learned.
        """
        plan, progress = self.plan, self.start("scale of the rewards")
        rows = shuffled([row.id for row in plan.split.train.rows], "probes", plan.seed)[:PROBES]
        written = self.writer.write([self.ids[row] for row in rows], PROBE_ANSWERS, progress)
        values = plan.reward.values(row_requests(rows, written))
        scale = Scale.of([[value.value for value in of_row] for of_row in values])
        return scale.model_copy(update={"policy": plan.policy.spec})
