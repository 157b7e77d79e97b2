"""Training by steps: what may be set, the base it starts from, and TRL's trainers."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from palate.engines import HELLO, ChatTemplate, within_memory
from palate.errors import ModelError, UsageError, needing
from palate.learning.encoding import EncodedChoice, TokenPair, TrainingExample, collate, in_batches
from palate.marks import ADDED_PAD
from palate.models import ModelFolder, import_torch, import_transformers, merge
from palate.models.loading import load_part, load_weights
from palate.records import Progress, Settings

Kind = Literal["classifier", "causal"]
KINDS: dict[Kind, str] = {"classifier": "a classifier", "causal": "a language model"}
TASKS = {"Reward": "SEQ_CLS"}
AT_ONCE = 8
"""Most pairs of one pass where a step's gradient is the mean of several passes."""
FACTS = ("steps", "seed", "batch_pairs", "learning_rate", "warmup", "max_length", "dtype")


def refuse(what: str, options: Any, checks: Iterable[tuple[str, bool, str]]) -> None:
    """Raise `UsageError` for the first option (name, whether it can be meant, what is expected)."""
    for name, holds, expected in checks:
        if not holds:
            raise UsageError(f"{what}: {name}={getattr(options, name)}: expected {expected}")


@dataclass(frozen=True)
class Recipe:
    """What a training run does."""

    steps: int
    """Of the optimiser; 0 saves the untrained start."""
    seed: int = 0
    """Of what is drawn before the first step, and of the order of the rows."""
    batch_pairs: int = 8
    """Rows a step."""
    learning_rate: float = 5e-5
    """Its peak."""
    warmup: float = 0.1
    """Share of the steps."""
    max_length: int = 1024
    """Most tokens of a row as the model reads it."""
    dtype: str = "bfloat16"
    """What a forward pass is computed in."""
    device: str = "cpu"
    progress: Progress | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises `UsageError`."""
        checks = (
            ("steps", self.steps >= 0, "0 or more"),
            ("batch_pairs", self.batch_pairs >= 1, "1 or more"),
            ("learning_rate", 0 < self.learning_rate < 1, "a number between 0 and 1"),
            ("warmup", 0 <= self.warmup < 1, "a share of the steps, 0 or more and below 1"),
            ("max_length", self.max_length >= 2, "2 tokens or more"),
            ("dtype", self.dtype in {"float32", "bfloat16"}, "float32 or bfloat16"),
        )
        refuse("training", self, checks)

    @property
    def facts(self) -> dict[str, Any]:
        """What is written of it into the model's folder."""
        return {name: getattr(self, name) for name in FACTS}

    def longest(self, model: Any) -> int:
        """Return how many tokens of a row this model reads."""
        return min(
            self.max_length, getattr(model.config, "max_position_embeddings", self.max_length)
        )


@dataclass(frozen=True)
class Lora:
    """W + (alpha / rank) · B A on every linear layer but the output's (arXiv 2106.09685)."""

    rank: int = 16
    alpha: int = 16
    dropout: float = 0.05

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises `UsageError`."""
        checks = (
            ("rank", self.rank >= 1, "1 or more"),
            ("alpha", self.alpha >= 1, "1 or more"),
            ("dropout", 0 <= self.dropout < 1, "0 or more and below 1"),
        )
        refuse("lora", self, checks)

    def config(self, peft: Any, kind: str = "CAUSAL_LM") -> Any:
        """Return the adapters as PEFT wants them; a new head of a classifier is trained whole."""
        return peft.LoraConfig(
            r=self.rank,
            lora_alpha=self.alpha,
            lora_dropout=self.dropout,
            target_modules="all-linear",
            task_type=kind,
        )


class Fitted(NamedTuple):
    """A trained model on the CPU, its adapters merged."""

    model: Any
    losses: tuple[float, ...] = ()
    seconds: float = 0.0


def fit(
    kind: Literal["Reward", "SFT", "DPO"],
    base: Base,
    rows: Sequence[TokenPair | TrainingExample | EncodedChoice],
    recipe: Recipe,
    scratch: Path,
    *,
    lora: Lora | None = None,
    beta: float | None = None,
) -> Fitted:
    """Train by one of TRL's trainers; without steps the base comes back.

    The loss of a step is that of its batch before the step is taken: the mean of -log
    sigmoid(r_chosen - r_rejected), or of -log p over the replies' tokens. Of `DPO` r is `beta`
    times log p of a reply, without a reference model. With `lora` adapters are trained. Raises
    `UsageError` without TRL or PEFT or where several accelerators are visible, and `ResourceError`
    where memory runs out.
    """
    if not recipe.steps:
        return Fitted(base.model)
    datasets, peft, trl = import_training()
    one_device(recipe.device)
    began = time.monotonic()
    batches = in_batches(rows, recipe.batch_pairs, recipe.steps, recipe.seed)
    arguments = config(getattr(trl, f"{kind}Config"), recipe, scratch)
    trainer_class, more = getattr(trl, f"{kind}Trainer"), {}
    if kind == "DPO":
        arguments.beta, arguments.precompute_ref_log_probs = beta, True
        arguments.remove_unused_columns = False
        n = recipe.batch_pairs
        once = next(k for k in range(min(n, AT_ONCE), 0, -1) if n % k == 0)
        arguments.per_device_train_batch_size = once
        arguments.gradient_accumulation_steps = n // once
        trainer_class = reading_ids(trainer_class)
        more = {"data_collator": collate(base.tokenizer.pad_token_id)}
    trainer = trainer_class(
        model=base.model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list([row.columns for rows in batches for row in rows]),
        processing_class=base.tokenizer,
        peft_config=None if lora is None else lora.config(peft, TASKS.get(kind, "CAUSAL_LM")),
        **more,
    )
    losses = run(trainer, recipe)
    model = base.model if lora is None else merge(trainer.model)
    return Fitted(model.to("cpu"), losses, time.monotonic() - began)


def reading_ids(trainer: Any) -> Any:
    """Return TRL 1.16's DPOTrainer for rows of ids, kept from computing the reference anew."""

    class ReadingIds(trainer):  # type: ignore[misc]
        def _prepare_dataset(self, dataset: Any, *given: Any, **more: Any) -> Any:
            return dataset

        def _precompute_ref_logps(self, dataset: Any, *given: Any, **more: Any) -> Any:
            return dataset

    return ReadingIds


def import_training() -> tuple[Any, Any, Any]:
    """Import datasets, PEFT and TRL; raises `UsageError` with what to install."""
    with needing("training needs", "train"):
        import datasets
        import peft
        import trl
    return datasets, peft, trl


def one_device(device: str) -> None:
    """Raise `UsageError` where several accelerators are visible."""
    if device != "cpu" and import_torch().accelerator.device_count() > 1:
        raise UsageError("training uses one device; show it only one, as in CUDA_VISIBLE_DEVICES=0")


def run(trainer: Any, recipe: Recipe) -> tuple[float, ...]:
    """Take a trainer's steps, silently; return each loss; `ResourceError` where memory runs out."""
    transformers, losses = import_transformers(), list[float]()

    class Watch(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_log(self, args: Any, state: Any, control: Any, **more: Any) -> None:
            logs = more.get("logs") or {}
            if "loss" in logs:
                losses.append(float(logs["loss"]))
                if recipe.progress is not None:
                    recipe.progress(len(losses), recipe.steps)

    trainer.remove_callback(transformers.PrinterCallback)
    trainer.add_callback(Watch())
    with within_memory(
        f"out of memory at {recipe.batch_pairs} pairs a step; lower batch_pairs or max_length"
    ):
        trainer.train()
    return tuple(losses)


def config(kind: Any, recipe: Recipe, scratch: Path) -> Any:
    """Return a recipe as the configuration of one of TRL's trainers."""
    options = {
        **trainer_options(recipe, recipe.steps, scratch, recipe.device),
        "per_device_train_batch_size": recipe.batch_pairs,
        "train_sampling_strategy": "sequential",  # the order was made by `in_batches`
        "max_length": None,  # what is longer was counted and left out before
        "logging_steps": 1,
        "save_strategy": "no",
    }
    if hasattr(kind, "router_aux_loss_coef"):  # the documented loss, also of mixtures of experts
        options["router_aux_loss_coef"] = 0.0
    return configured(kind, options)


def trainer_options(recipe: Any, steps: int, output: Path, device: str) -> dict[str, Any]:
    """Return what all of TRL's trainers are told, from any recipe of that many steps."""
    cpu = device == "cpu"
    return {
        "output_dir": str(output),
        "max_steps": steps,
        "learning_rate": recipe.learning_rate,
        "lr_scheduler_type": "linear",
        "warmup_steps": round(recipe.warmup * steps),
        "seed": recipe.seed,
        "bf16": recipe.dtype == "bfloat16",  # autocast: the weights stay in float32
        "use_cpu": cpu,
        "gradient_checkpointing": not cpu,  # there memory is short, here time is
        "dataloader_pin_memory": not cpu,
        "disable_tqdm": True,
        "report_to": "none",
    }


def configured(kind: Any, options: Mapping[str, Any]) -> Any:
    """Return a configuration of TRL's, whose own default still has the older name of an option."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return kind(**options)


class Base(NamedTuple):
    """A model in float32, and its tokenizer."""

    model: Any
    tokenizer: Any
    template: ChatTemplate
    notes: tuple[str, ...] = ()
    """Notes of the run from loading them."""


def load_base(
    folder: ModelFolder,
    name: str,
    seed: int,
    kind: Kind = "classifier",
    settings: Settings | None = None,
) -> Base:
    """Load a causal model, or a classifier of one output whose missing head the seed draws.

    Seeds the global generators of Python, numpy and torch, as transformers does. A chat template of
    the settings becomes the tokenizer's own where it has none. Raises `ModelError` if it cannot be
    loaded so, or has no chat template.
    """
    base = _loaded(folder, name, seed, kind, settings)
    _set_pad(base.model, base.tokenizer, base.template)
    return base._replace(template=_template(base.model, base.tokenizer, settings))


def load_policy(
    folder: ModelFolder, name: str, seed: int, settings: Settings | None = None
) -> Base:
    """Load a language model that is trained on what it writes; its pad token may end a turn.

    Its vocabulary stays, since a frozen copy is loaded beside it. Raises as `load_base`.
    """
    base = _loaded(folder, name, seed, "causal", settings)
    if base.tokenizer.pad_token is None:
        base.tokenizer.pad_token = base.tokenizer.eos_token
    base.tokenizer.padding_side = "left"
    return base


def _template(model: Any, tokenizer: Any, settings: Settings | None) -> ChatTemplate:
    return ChatTemplate(tokenizer, settings, model.get_input_embeddings().num_embeddings)


def _loaded(
    folder: ModelFolder, name: str, seed: int, kind: Kind, settings: Settings | None
) -> Base:
    torch, transformers = import_torch(), import_transformers()
    transformers.set_seed(seed)
    notes, fresh = list(folder.notes), kind == "classifier"
    options: dict[str, Any] = {"fresh_head": True, "num_labels": 1} if fresh else {}
    try:
        tokenizer = load_part("AutoTokenizer", folder.path, name, notes)
        model = load_weights(name, kind, folder.path, notes, dtype=torch.float32, **options)
    except ModelError as error:
        why = str(error).removeprefix(f"{name}: ").removeprefix("cannot be loaded ").strip("()")
        raise ModelError(f"{name}: cannot be trained as {KINDS[kind]} ({why})") from error
    template = _template(model, tokenizer, settings)
    if template.source.given:
        tokenizer.chat_template = template.source.written
    for module in model.modules():  # TRL switches off modules; attention holds its rate as a number
        if isinstance(getattr(module, "attention_dropout", None), float):
            module.attention_dropout = 0.0
    return Base(model, tokenizer, template, tuple(notes))


def _set_pad(model: Any, tokenizer: Any, template: ChatTemplate) -> None:
    # A classifier's head reads the last token that is not pad, and a language model must not learn
    # that pad ends a turn: so no token that any conversation holds.
    written = set(template.conversation(HELLO, "Hello!"))
    written |= {tokenizer.eos_token_id, tokenizer.bos_token_id}
    candidates = (tokenizer.pad_token, tokenizer.unk_token)
    free = (t for t in candidates if t and tokenizer.convert_tokens_to_ids(t) not in written)
    pad = next(free, None)
    if pad is None:
        pad = ADDED_PAD
        tokenizer.add_special_tokens({"pad_token": pad})
        if len(tokenizer) > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    tokenizer.pad_token = pad
    model.config.pad_token_id = tokenizer.pad_token_id
    model.config.get_text_config().pad_token_id = tokenizer.pad_token_id
    if getattr(model, "generation_config", None) is not None:
        model.generation_config.pad_token_id = tokenizer.pad_token_id
