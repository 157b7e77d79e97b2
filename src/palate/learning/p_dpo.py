"""P-DPO (Li et al. 2024, arXiv 2402.05133): a policy with soft tokens per user, from choices.

Low-rank adapters and users' soft tokens are trained by TRL's DPOTrainer and PEFT, and the adapters
are merged at the end.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

from palate.engines import Encoded
from palate.errors import DataError
from palate.learning.encoding import EncodedPair, encode_choices, in_batches
from palate.learning.fitting import (
    Base,
    Fitted,
    Lora,
    Recipe,
    config,
    import_training,
    one_device,
    reading_ids,
    refuse,
    run,
)
from palate.learning.personal_policy import (
    POLICY,
    STATE,
    USERS,
    PersonalPolicy,
    block,
    install,
    opening,
    response_log_probs,
    uninstall,
    with_tokens,
    write,
)
from palate.learning.recipes import (
    STEPS,
    BaseMethod,
    BaseTask,
    TrainedModel,
    named,
    new_folder,
    save,
    trained_model,
)
from palate.learning.states import History, UserStates, history_hash
from palate.models import import_torch, merge, resolve
from palate.records import Message, choices_of, user_key
from palate.specs import Reference

SAMPLE = 4096
"""Words whose vectors tell how large a word's numbers are."""


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
        checks = (
            ("tokens", self.tokens >= 1, "1 or more"),
            ("alpha", 0 < self.alpha <= 1, "above 0 and at most 1"),
            ("beta", 0 < self.beta < math.inf, "a number above 0"),
            ("prior_std", 0 < self.prior_std < math.inf, "a number above 0"),
            ("rate", 0 < self.rate < math.inf, "a number above 0"),
        )
        refuse("p-dpo", self, checks)


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


OWN = tuple(field.name for field in fields(PreferenceOptions))


def train_p_dpo(history: History, task: BaseTask) -> TrainedModel:
    """Train a policy with soft tokens per user (user id → choices) by DPO on their choices.

    Individual form: e_u = e_0 + o_u, loss α·DPO(e_u) + (1 − α)·DPO(e_0), the paper's. Ours
    are the Gaussian prior on o_u, which makes few choices move little, and where e_0 starts: the
    vectors of the questions' most frequent tokens. The folder holds the policy with its adapters
    merged, e_0, and the states of the users trained on (`users.safetensors`).

    The base, a causal model with a chat template, is also the reference. By default there are 200
    steps, the adapters at 5e-4 (as GenARM's, of the same rank). A choice is read for its user and
    for the generic one; those over `max_length`, soft tokens included, are left out. Raises as
    `train_classifier`.
    """
    options = PreferenceOptions(**{k: v for k, v in task.options.items() if k in OWN})
    recipe, lora = task.recipe(steps=200, learning_rate=5e-4), task.lora(8, scale=2)
    if not any(history.values()):
        raise DataError("p-dpo: no choice to learn from")
    with new_folder(task.output) as folder:
        base, _ = task.load(recipe, "causal")
        limit = recipe.longest(base.model) - options.tokens
        fitting, n_too_long = encode_choices(base.template, history, limit)
        users = [user for user, listed in fitting.items() if listed]
        pairs = [
            EncodedPair(k, choice) for k, user in enumerate(users, 1) for choice in fitting[user]
        ]
        if not pairs:
            raise DataError(f"p-dpo: no choice to learn from: each is over {limit} tokens")
        first, unit = _words(base.model)
        generic = _first_tokens(base, pairs, options.tokens)
        counts = tuple(len(fitting[user]) for user in users)
        tokens = SoftTokens(generic, counts, opening(base.template), unit, options)
        scratch = folder.parent / "trainer"
        fitted, generic, offsets = _tuned(base, pairs, recipe, lora, tokens, scratch)
        (folder / POLICY).mkdir()
        save(fitted.model, base.tokenizer, folder / POLICY, {"kind": "policy of p-dpo"})
        keys = tuple(user_key(user) for user in users)
        facts: dict[str, Any] = {
            "first": first,
            "unit": unit,
            "base": _where(task.base, task.output),
            **asdict(options),
            "users": keys,
            "n_choices": len(pairs),
            "n_too_long": n_too_long,
            "data": history_hash(history),
            "lora": asdict(lora),
            **recipe.facts,
            **base.template.source.details,
        }
        write(folder, generic.numpy(), facts)
        made = PersonalPolicy.load(folder)
        UserStates(keys, {STATE: offsets.numpy()}, made.fingerprint).save(folder / USERS)
    sizes = {"n_users": len(users), "n_too_long": n_too_long}
    return trained_model(task, recipe, base, fitted, len(pairs), **sizes)


def _where(base: Reference, output: Path) -> dict[str, str]:
    # Of a folder the way from the model to it, so that both can be moved together.
    source, text = resolve(base), str(base)
    if base.place == "folder":
        text = Path(os.path.relpath(source.path, output.expanduser().absolute())).as_posix()
    return {"place": base.place, "name": named(base), "reference": text, "content": source.content}


def _words(model: Any) -> tuple[int, float]:
    """Return how many words there are, and the root mean square number of their vectors."""
    torch = import_torch()
    words = model.get_input_embeddings()
    number = words.weight.shape[0]
    some = torch.arange(0, number, max(1, number // SAMPLE))
    with torch.no_grad():
        return number, float(words(some).double().square().mean().sqrt())


def _first_tokens(base: Base, pairs: Sequence[EncodedPair], tokens: int) -> Any:
    """Return the vectors of the questions' most frequent tokens, in turn where they are few."""
    torch = import_torch()
    frame = set(base.template.prompt((Message(role="user", content=""),)))
    prompts = (pair.choice.chosen.ids[: pair.choice.chosen.start] for pair in pairs)
    counts = Counter(token for prompt in prompts for token in prompt)
    asked = sorted(counts, key=lambda token: (token in frame, -counts[token], token))
    asked = [token for token in asked if token not in frame] or asked
    ids = torch.tensor([asked[k % len(asked)] for k in range(tokens)])
    with torch.no_grad():
        return base.model.get_input_embeddings()(ids).detach().clone()


def _tuned(
    base: Base,
    pairs: Sequence[EncodedPair],
    recipe: Recipe,
    lora: Lora,
    tokens: SoftTokens,
    scratch: Path,
) -> tuple[Fitted, Any, Any]:
    """Train adapters and soft tokens, one step a batch; return also e_0 and o_u (users × T × d).

    The loss of a step is the mean over its pairs of α·DPO(e_u) + (1 − α)·DPO(e_0) plus α times the
    pair's share of −log N(o_u; 0, prior_std²). DPO = −log σ(β [Δ log π − Δ log π_ref]), where π_ref
    is the untrained model, which reads no soft token and is read once. Without steps everything
    comes back as it was, the users' offsets 0.
    """
    torch = import_torch()
    zeros = torch.zeros(len(tokens.choices), *tokens.generic.shape)
    if not recipe.steps:
        return Fitted(base.model), tokens.generic, zeros
    began = time.monotonic()
    datasets, peft, trl = import_training()
    one_device(recipe.device)
    model = base.model.to(recipe.device)
    module = install(model, tokens.generic.clone(), zeros, tokens.unit)
    batches = list(in_batches(pairs, recipe.batch_pairs, recipe.steps, recipe.seed))
    reference = reference_log_probs(model, batches, recipe.dtype)
    rows = []
    for pair, both in zip((pair for batch in batches for pair in batch), reference, strict=True):
        ids = block(module.first, len(tokens.generic), pair.user)
        rows.append(_columns(pair, tokens.opening, ids, both))
    arguments = config(trl.DPOConfig, recipe, scratch)
    arguments.beta, arguments.precompute_ref_log_probs = tokens.options.beta, True
    trainer = trainer_class()(
        model=model,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=base.tokenizer,
        peft_config=lora.config(peft),
    )
    trainer.tokens, trainer.module = tokens, module
    shares = [1 / max(1, n) for n in tokens.choices]
    trainer.shares = torch.tensor([0.0, *shares], device=recipe.device)
    for parameter in (module.generic, module.offsets):  # PEFT froze them with everything else
        parameter.requires_grad_(True)
    losses = run(trainer, recipe)
    merged = merge(trainer.model).to("cpu")
    uninstall(merged)
    offsets = module.offsets.detach().cpu() * tokens.unit
    fitted = Fitted(merged, losses, time.monotonic() - began)
    return fitted, module.generic.detach().cpu(), offsets


def _columns(
    pair: EncodedPair, opening: tuple[int, ...], ids: range, reference: tuple[float, float]
) -> dict[str, Any]:
    """Return what TRL's trainer reads of a pair with its user's tokens."""
    chosen, rejected = (with_tokens(side, opening, ids) for side in pair.choice)
    start = min(chosen.start, rejected.start)
    return {
        "prompt_ids": chosen.ids[:start],
        "chosen_ids": chosen.ids[start:],
        "rejected_ids": rejected.ids[start:],
        "ref_chosen_logps": reference[0],
        "ref_rejected_logps": reference[1],
    }


def reference_log_probs(
    model: Any, batches: Sequence[Sequence[EncodedPair]], dtype: str
) -> list[tuple[float, float]]:
    """Return log p of a pair's responses under the untrained model, in the training's precision."""
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
                sums = response_log_probs(model, new).tolist()
                known |= dict(zip(new, sums, strict=True))
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
            generic, offsets = self.module.generic, self.module.offsets
            soft, rate = {id(generic), id(offsets)}, self.tokens.options.rate
            trained = (p for p in self.model.parameters() if p.requires_grad)
            groups = [
                {"params": [p for p in trained if id(p) not in soft]},
                {"params": [generic], "lr": rate * self.tokens.unit},
                {"params": [offsets], "lr": rate},
            ]
            self.optimizer = torch.optim.AdamW(groups, self.args.learning_rate, weight_decay=0.0)
            return self.optimizer

        def compute_loss(self, model: Any, inputs: Any, *given: Any, **more: Any) -> Any:
            ids = inputs["input_ids"]
            known = super().compute_loss(model, inputs)
            anybody = {**inputs, "input_ids": self.module.as_generic(ids)}
            generic = super().compute_loss(model, anybody)
            users = self.module.users(ids)
            sizes = self.module.offsets[users - 1].square().sum(dim=(1, 2))
            prior = (self.shares[users] * sizes).mean() / (2 * self.tokens.options.prior_std**2)
            alpha = self.tokens.options.alpha
            return alpha * (known + prior) + (1 - alpha) * generic

    return TwoTerms


def _train(task: BaseTask) -> TrainedModel:
    history = choices_of(pair for pair in task.pairs if pair.user_id not in task.leave_out)
    return train_p_dpo(history, task)


P_DPO_RECIPE = BaseMethod((*STEPS, "rank", *OWN), _train)
