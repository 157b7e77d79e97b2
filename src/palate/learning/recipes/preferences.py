"""Low-rank adapters and users' soft tokens through TRL's DPOTrainer and PEFT, merged at the end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from palate.engines import Encoded
from palate.errors import UsageError
from palate.learning.recipes.base import Base
from palate.learning.recipes.fitting import (
    Progress,
    Recipe,
    config,
    import_training,
    one_device,
    reading_ids,
    run,
    watch,
)
from palate.learning.recipes.tuning import EncodedChoice, Lora
from palate.learning.recipes.user_tokens import (
    block,
    install,
    response_log_probs,
    uninstall,
    with_tokens,
)
from palate.models import import_torch, merge


class EncodedPair(NamedTuple):
    """A user's choice, encoded without any soft token; `user` counts from 1."""

    user: int
    choice: EncodedChoice

    @property
    def width(self) -> int:
        """Tokens of the longer conversation."""
        return self.choice.width


@dataclass(frozen=True)
class PreferenceOptions:
    """What P-DPO is trained with, beside the optimiser's recipe."""

    tokens: int = 10
    """T: soft tokens of a user."""
    alpha: float = 0.5
    """Weight of the loss that knows the user; the rest teaches the generic user's tokens."""
    beta: float = 0.5
    """Of DPO: how far the policy may go from its reference."""
    prior_std: float = 1.0
    """How far users' tokens differ before any choice, in root mean square numbers of a word."""
    rate: float = 0.01
    """Learning rate of the soft tokens, in the same unit."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant; raises `UsageError`."""
        for name, holds, expected in (
            ("tokens", self.tokens >= 1, "1 or more"),
            ("alpha", 0 < self.alpha <= 1, "above 0 and at most 1"),
            ("beta", 0 < self.beta < math.inf, "a number above 0"),
            ("prior_std", 0 < self.prior_std < math.inf, "a number above 0"),
            ("rate", 0 < self.rate < math.inf, "a number above 0"),
        ):
            if not holds:
                raise UsageError(f"p-dpo: {name}={getattr(self, name)}: expected {expected}")


class SoftTokens(NamedTuple):
    """The soft tokens before training."""

    generic: Any
    """Where e_0 starts (T × d)."""
    choices: tuple[int, ...]
    """How many each user made."""
    opening: tuple[int, ...]
    """What the template writes before the place of the tokens."""
    unit: float
    """Root mean square number of a word's vector."""
    options: PreferenceOptions


class TunedPolicy(NamedTuple):
    """What training gives."""

    model: Any
    """The policy with its adapters merged and its own table of words."""
    generic: Any
    """e_0 (T × d)."""
    offsets: Any
    """o_u of the users trained on (users × T × d)."""
    losses: tuple[float, ...]


def tune_preferences(
    base: Base,
    batches: Sequence[Sequence[EncodedPair]],
    recipe: Recipe,
    lora: Lora,
    tokens: SoftTokens,
    *,
    device: str,
    scratch: Path,
    progress: Progress | None = None,
) -> TunedPolicy:
    """Train adapters and soft tokens, one step a batch.

    The loss of a step is the mean over its pairs of α·DPO(e_u) + (1 − α)·DPO(e_0) plus α times the
    pair's share of −log N(o_u; 0, prior_std²). DPO = −log σ(β [Δ log π − Δ log π_ref]), where π_ref
    is the untrained model, which reads no soft token and is read once. Without steps everything
    comes back as it was, the users' offsets 0.

    Raises:
        UsageError: where TRL or PEFT is not installed or several accelerators are visible.
        ResourceError: where memory runs out.
    """
    torch = import_torch()
    zeros = torch.zeros(len(tokens.choices), *tokens.generic.shape)
    if not recipe.steps:
        return TunedPolicy(base.model, tokens.generic, zeros, ())
    datasets, peft, trl = import_training()
    one_device(device)
    model = base.model.to(device)
    module = install(model, tokens.generic.clone(), zeros, tokens.unit)
    rows = [pair for batch in batches for pair in batch]
    reference = reference_log_probs(model, batches, recipe.dtype)
    columns: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for pair, both in zip(rows, reference, strict=True):
        ids = block(module.first, len(tokens.generic), pair.user)
        for name, value in zip(COLUMNS, _columns(pair, tokens.opening, ids, both), strict=True):
            columns[name].append(value)
    losses: list[float] = []
    arguments = config(trl.DPOConfig, recipe, device, scratch)
    arguments.beta, arguments.precompute_ref_log_probs = tokens.options.beta, True
    trainer = trainer_class()(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_dict(columns),
        processing_class=base.tokenizer,
        callbacks=[watch(losses, recipe.steps, progress)],
        peft_config=lora.config(peft),
    )
    trainer.tokens, trainer.module = tokens, module
    shares = [1 / max(1, n) for n in tokens.choices]
    trainer.shares = torch.tensor([0.0, *shares], device=device)
    for one in (module.generic, module.offsets):  # PEFT froze them with everything else
        one.requires_grad_(True)
    run(trainer, recipe)
    merged = merge(trainer.model).to("cpu")
    uninstall(merged)
    offsets = module.offsets.detach().cpu() * tokens.unit
    return TunedPolicy(merged, module.generic.detach().cpu(), offsets, tuple(losses))


COLUMNS = ("prompt_ids", "chosen_ids", "rejected_ids", "ref_chosen_logps", "ref_rejected_logps")


def _columns(
    pair: EncodedPair, opening: tuple[int, ...], ids: range, reference: tuple[float, float]
) -> Iterator[Any]:
    chosen, rejected = (with_tokens(it, opening, ids) for it in pair.choice)
    start = min(chosen.start, rejected.start)
    yield list(chosen.ids[:start])
    yield list(chosen.ids[start:])
    yield list(rejected.ids[start:])
    yield from reference


def reference_log_probs(
    model: Any, batches: Sequence[Sequence[EncodedPair]], dtype: str
) -> list[tuple[float, float]]:
    """Return log p of each pair's chosen and rejected response under the untrained model.

    In the precision of training, so that rounding falls out of the margins.
    """
    torch = import_torch()
    device = next(model.parameters()).device
    model.eval()
    known: dict[Encoded, float] = {}
    low = torch.autocast(device.type, torch.bfloat16, enabled=dtype == "bfloat16")
    with torch.no_grad(), low:
        for batch in batches:
            sides = [side for pair in batch for side in pair.choice]
            new = [side for side in dict.fromkeys(sides) if side not in known]
            if new:
                found = response_log_probs(model, new).tolist()
                known |= dict(zip(new, found, strict=True))
    choices = (pair.choice for batch in batches for pair in batch)
    return [(known[chosen], known[rejected]) for chosen, rejected in choices]


def trainer_class() -> Any:
    """Return TRL's DPO trainer, whose soft tokens are of the row's user."""
    import trl

    torch = import_torch()

    class TwoTerms(reading_ids(trl.DPOTrainer)):  # type: ignore[misc]
        """DPO of the known and of the generic user."""

        tokens: SoftTokens
        module: Any
        shares: Any

        def create_optimizer(self, model: Any = None) -> Any:
            del model
            soft = [self.module.generic, self.module.offsets]
            named = {id(one) for one in soft}
            every = (p for p in self.model.parameters() if p.requires_grad)
            rest = [p for p in every if id(p) not in named]
            rate = self.tokens.options.rate
            groups = [
                {"params": [one], "lr": lr}
                for one, lr in zip(soft, (rate * self.tokens.unit, rate), strict=True)
            ]
            self.optimizer = torch.optim.AdamW(
                [{"params": rest}, *groups], lr=self.args.learning_rate, weight_decay=0.0
            )
            return self.optimizer

        def compute_loss(self, model: Any, inputs: Any, *given: Any, **more: Any) -> Any:
            ids = inputs["input_ids"]
            known = super().compute_loss(model, inputs)
            anybody = {**inputs, "input_ids": self.module.as_generic(ids)}
            generic = super().compute_loss(model, anybody)
            users = self.module.users(ids)
            own = self.module.offsets[users - 1].square().sum(dim=(1, 2))
            prior = (self.shares[users] * own).mean() / (2 * self.tokens.options.prior_std**2)
            alpha = self.tokens.options.alpha
            return alpha * (known + prior) + (1 - alpha) * generic

    return TwoTerms
