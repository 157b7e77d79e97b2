"""One table: how TRL is told to run PPO, RLOO and GRPO on the same prompts and rewards."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from palate.learning.recipes.fitting import import_training, one_device
from palate.learning.recipes.tuning import Lora
from palate.models import import_transformers
from palate.trainers.algorithms.recipe import PPO_ALONE, Algorithm, PolicyTraining

LAST_FILE = "trainer_state.json"
"""Of a checkpoint; where it can be read, all other files are there."""

CHECKPOINTS = 2
"""How many stay: the newest may be half written when a run is killed."""


class TrainerKind(NamedTuple):
    """The classes of one algorithm, and what its configuration is told beside the common part."""

    config: Any
    trainer: Any
    options: Mapping[str, Any]


def ppo(recipe: PolicyTraining) -> TrainerKind:
    """PPO: KL in the reward of each token, a critic, an advantage a token."""
    from palate.trainers.algorithms.trainer import PPOConfig, PPOTrainer

    options = {name: getattr(recipe, name) for name in PPO_ALONE}
    return TrainerKind(PPOConfig, PPOTrainer, options)


def rloo(recipe: PolicyTraining) -> TrainerKind:
    """RLOO (Ahmadian et al. 2024): KL in the reward of an answer, less the mean of its siblings."""
    from trl.trainer.rloo_config import RLOOConfig
    from trl.trainer.rloo_trainer import RLOOTrainer

    return TrainerKind(RLOOConfig, RLOOTrainer, {"normalize_advantages": False})


def grpo(recipe: PolicyTraining) -> TrainerKind:
    """GRPO without its two biases (Liu et al. 2025, arXiv 2503.20783), KL in the loss.

    Advantages divided by their spread would change what a nat of KL costs from prompt to prompt,
    so they are not; the KL's gradient is corrected to be that of E_π, not of E_ref.
    """
    from trl.trainer.grpo_config import GRPOConfig
    from trl.trainer.grpo_trainer import GRPOTrainer

    options = {"scale_rewards": "none", "loss_type": "dr_grpo", "use_bias_correction_kl": True}
    return TrainerKind(GRPOConfig, GRPOTrainer, options)


ALGORITHMS: Mapping[Algorithm, Callable[[PolicyTraining], TrainerKind]] = {
    "ppo": ppo,
    "rloo": rloo,
    "grpo": grpo,
}


def build_trainer(
    recipe: PolicyTraining,
    model: Any,
    tokenizer: Any,
    rows: Sequence[Mapping[str, Any]],
    reward: Callable[..., list[float | None]],
    output: Path,
    *,
    device: str = "cpu",
    lora: Lora | None = None,
    callbacks: Sequence[Any] = (),
) -> Any:
    """Return a trainer of TRL's, ready for `train(resume_from_checkpoint=last_checkpoint(output))`.

    A run that is killed and resumed ends with the same weights, bit for bit, in float32 on a CPU
    with one thread: the run is one pass over the prompts, in an order that is written here, and
    checkpoints lie between updates.

    Args:
        recipe: the algorithm, and how it is run.
        model: the policy in float32, loaded from a folder; its frozen reference is loaded again.
        tokenizer: the policy's.
        rows: with `prompt`, a text or messages; every other column reaches the reward as a list.
        reward: called by TRL with prompts, completions, completion_ids and the rows' columns;
            gives a number an answer, or None for an answer that is not to be learned from.
        output: where checkpoints go.
        device: `cpu`, or the one accelerator that is visible.
        lora: trains adapters, whose reference is the policy without them.
        callbacks: of transformers.

    Raises:
        UsageError: where TRL or PEFT is not installed, PPO was not tested with this TRL, several
            accelerators are visible, or the reference could not be loaded.
    """
    datasets, peft, _ = import_training()
    one_device(device)
    kind = ALGORITHMS[recipe.algorithm](recipe)
    if recipe.kl_coefficient and lora is None:
        from palate.trainers.algorithms.trl_hooks import refuse_unloadable_reference

        refuse_unloadable_reference(model)
    with warnings.catch_warnings():  # TRL's own default still has the older name of an option
        warnings.simplefilter("ignore", FutureWarning)
        arguments = kind.config(**_common(recipe, output, device), **kind.options)
    trainer = kind.trainer(
        model=model,
        reward_funcs=reward,
        args=arguments,
        train_dataset=datasets.Dataset.from_list([dict(row) for row in recipe.prompts(rows)]),
        processing_class=tokenizer,
        peft_config=None if lora is None else lora.config(peft),
        callbacks=list(callbacks),
    )
    trainer.remove_callback(import_transformers().PrinterCallback)
    return trainer


def _common(recipe: PolicyTraining, output: Path, device: str) -> dict[str, Any]:
    steps = recipe.steps_per_update
    save: dict[str, Any] = {"save_strategy": "no"}
    if recipe.save_every is not None:
        every = recipe.save_every * steps
        save = {"save_strategy": "steps", "save_steps": every, "save_total_limit": CHECKPOINTS}
    return {
        "output_dir": str(output),
        "max_steps": recipe.updates * steps,
        "per_device_train_batch_size": recipe.at_once,
        "steps_per_generation": recipe.passes,
        "gradient_accumulation_steps": recipe.passes // recipe.minibatches,
        "num_iterations": recipe.epochs,
        "num_generations": recipe.group,
        "max_completion_length": recipe.max_new_tokens,
        "temperature": recipe.temperature,
        "beta": recipe.kl_coefficient,
        "epsilon": recipe.clip_range,
        "learning_rate": recipe.learning_rate,
        "lr_scheduler_type": "linear",
        "warmup_steps": round(recipe.warmup * recipe.updates * steps),
        "max_grad_norm": recipe.max_grad_norm,
        "seed": recipe.seed,
        "bf16": recipe.dtype == "bfloat16",  # autocast: the weights stay in float32
        "use_cpu": device == "cpu",
        "gradient_checkpointing": device != "cpu",  # there memory is short, here time is
        "dataloader_pin_memory": device != "cpu",
        "disable_dropout": True,
        "shuffle_dataset": False,  # the order was made by `PolicyTraining.prompts`
        "remove_unused_columns": False,
        "disable_tqdm": True,
        "logging_steps": steps,
        "report_to": "none",
        **save,
    }


def last_checkpoint(output: Path) -> Path | None:
    """Return the newest checkpoint that was written to its end, or None.

    >>> last_checkpoint(Path("nowhere")) is None
    True
    """
    numbered = {
        int(match[1]): path
        for path in output.glob("checkpoint-*")
        if (match := re.fullmatch(r"checkpoint-(\d+)", path.name))
    }
    whole = (numbered[k] for k in sorted(numbered, reverse=True) if _is_whole(numbered[k]))
    return next(whole, None)


def _is_whole(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / LAST_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return True
