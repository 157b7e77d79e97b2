"""A personal policy on disk (merged model, everybody's soft tokens), and its tokens in a model.

A user u has T vectors e_u = e_0 + o_u before the question: e_0 is everybody's, o_u the user's own
(P-DPO, Li et al. 2024, arXiv 2402.05133). They are ordinary token ids beyond the vocabulary, so
whatever reads ids reads them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.engines import ChatTemplate, Encoded
from palate.errors import ModelError, writing
from palate.files import write_whole
from palate.learning.states import UserStates, bytes_of, read_tensors
from palate.models import import_torch, resolve
from palate.records import Message
from palate.seeding import digest
from palate.specs import Reference

KIND, P_DPO = "personal-policy", "p-dpo"
FACTS, POLICY = "palate.json", "policy"
TOKENS, USERS = "user_tokens.safetensors", "users.safetensors"
GENERIC = 0
"""The block of ids of a user of whom nothing is known."""
HEADER = {"schema", "kind", "method"}
STATE = "offsets"
"""Name of o_u in a file of states (users × T × d)."""


@dataclass(frozen=True)
class PersonalPolicy:
    """What `palate train p-dpo` gives.

    The reward of a response is r_u(x, y) = β [log π(y | e_u, x) − log π_ref(y | x)], the sum of its
    tokens' rewards, with e_u = e_0 + o_u in front of the question.
    """

    folder: Path
    generic: NDArray[np.float32]
    """e_0 (T × d): what stands there for a user of whom nothing is known."""
    first: int
    """Id of the first soft token: the number of words."""
    unit: float
    """Root mean square number of a word's vector."""
    prior_std: float
    """Standard deviation of o_u / unit before any choice."""
    beta: float
    base: Mapping[str, str]
    """Where the reference lies (a folder's path from here) and the hash of its content."""
    facts: Mapping[str, Any]
    """How it was trained."""

    @property
    def tokens(self) -> int:
        """T."""
        return len(self.generic)

    @property
    def policy(self) -> Reference:
        """The merged model."""
        return Reference(place="folder", name=str(self.folder / POLICY))

    @cached_property
    def fingerprint(self) -> str:
        """Hash of all that a score depends on beside the reference's weights and the state."""
        content = resolve(self.policy).content
        made = (self.first, self.unit, self.prior_std, self.beta, self.base["content"])
        return digest(KIND, P_DPO, content, *made)

    @property
    def trained_on(self) -> frozenset[str]:
        """Keys of the users it was trained on."""
        return frozenset(self.facts.get("users", ()))

    def reference(self, given: str | None = None) -> Reference:
        """Return the model it was trained from; raises `ModelError` where that is another one."""
        text = given or self.base["reference"]
        reference = Reference.parse(text)
        if given is None and self.base["place"] == "folder":
            reference = Reference(place="folder", name=os.path.normpath(self.folder / text))
        try:
            content = resolve(reference).content
        except ModelError as error:
            raise ModelError(
                f"{self.folder}: its reference is not there ({error}); name it, as in "
                f"personal:{self.folder}?reference=./base"
            ) from error
        if content != self.base["content"]:
            raise ModelError(
                f"{self.folder}: {reference} is not the model it was trained from (other content); "
                "name that one, as in ?reference=./base, or train again"
            )
        return reference

    def prior(self) -> UserStates:
        """Return no user's state."""
        empty = np.zeros((0, *self.generic.shape), np.float32)
        return UserStates((), {STATE: empty}, self.fingerprint)

    @classmethod
    def load(cls, folder: Path) -> PersonalPolicy:
        """Read the folder; raises `ModelError` for what is no personal policy."""
        facts = read_facts(folder)
        if facts is None or facts.get("kind") != KIND or facts.get("schema") != 1:
            raise ModelError(f"{folder}: no personal policy; make one with palate train p-dpo")
        _, tensors = read_tensors(folder / POLICY / TOKENS)
        numbers = {name: facts.pop(name) for name in ("first", "unit", "prior_std", "beta", "base")}
        made = {name: value for name, value in facts.items() if name not in HEADER}
        return cls(folder, tensors["generic"], **numbers, facts=made)


def is_policy(folder: Path) -> bool:
    """Tell whether a folder holds a personal policy rather than a model on vectors."""
    facts = read_facts(folder)
    return facts is not None and facts.get("kind") == KIND


def read_facts(folder: Path) -> dict[str, Any] | None:
    """Return what a trained model's folder says of itself; None where it says nothing."""
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return facts if isinstance(facts, dict) else None


def write(folder: Path, generic: NDArray[np.float32], facts: Mapping[str, Any]) -> None:
    """Write e_0 and `palate.json` beside the weights; `ResourceError` where the disk refuses."""
    text = json.dumps({"schema": 1, "kind": KIND, "method": P_DPO, **facts}, indent=1) + "\n"
    with writing(folder):
        write_whole(folder / POLICY / TOKENS, bytes_of({"generic": generic}))
        write_whole(folder / FACTS, text)


def head(template: ChatTemplate) -> str:
    """Return what a template writes before the first words of the first message."""
    first, other = (template.answer_text((Message(role="user", content=text),)) for text in "ab")
    apart = (k for k, (a, b) in enumerate(zip(first, other, strict=False)) if a != b)
    return first[: next(apart, len(first))]


def opening(template: ChatTemplate) -> tuple[int, ...]:
    """Return the tokens of `head`: behind them stand the soft tokens."""
    return tuple(template.tokenizer(head(template), add_special_tokens=False)["input_ids"])


def with_tokens(encoded: Encoded, opening: Sequence[int], tokens: Sequence[int]) -> Encoded:
    """Put a user's tokens where the first message's words begin; all other tokens stay.

    Training, adapting and scoring all call this, so the place is the same in all three.

    >>> with_tokens(Encoded((1, 2, 7, 8, 3, 9), 5), (1, 2), (50, 51))
    Encoded(ids=(1, 2, 50, 51, 7, 8, 3, 9), start=7)
    """
    pairs = enumerate(zip(opening, encoded.ids, strict=False))
    shorter = min(len(opening), len(encoded.ids))
    place = min(next((k for k, (ours, theirs) in pairs if ours != theirs), shorter), encoded.start)
    ids = (*encoded.ids[:place], *tokens, *encoded.ids[place:])
    return Encoded(ids, encoded.start + len(tokens))


def block(first: int, tokens: int, user: int) -> range:
    """Return the ids of a user's tokens: block 0 is the generic user's, k the k-th user's."""
    return range(first + user * tokens, first + (user + 1) * tokens)


def install(model: Any, generic: Any, offsets: Any, unit: float = 1.0) -> Any:
    """Let a model read soft tokens beyond its table of words, and return the module that does.

    `generic` is e_0 (T × d), `offsets` are the users' o_u / unit (users × T × d). Installed before,
    they are replaced. The output's vocabulary stays as it is.
    """
    words = model.get_input_embeddings()
    words = getattr(words, "words", words)
    module = _user_tokens()(words, generic, offsets, unit)
    model.set_input_embeddings(module.to(words.weight.device))
    return module


def uninstall(model: Any) -> None:
    """Give a model its own table of words back."""
    words = model.get_input_embeddings()
    model.set_input_embeddings(getattr(words, "words", words))


@cache
def _user_tokens() -> Any:
    torch = import_torch()

    class UserTokens(torch.nn.Module):  # type: ignore[misc, name-defined]
        """The table of words, and after it T ids for everybody and T for each user."""

        def __init__(self, words: Any, generic: Any, offsets: Any, unit: float) -> None:
            super().__init__()
            self.words, self.unit = words, unit
            self.generic = torch.nn.Parameter(generic)
            self.offsets = torch.nn.Parameter(offsets)
            self.first = words.weight.shape[0]

        @property
        def weight(self) -> Any:
            """The table of words, for whoever asks an embedding for it."""
            return self.words.weight

        @property
        def num_embeddings(self) -> int:
            """Words, soft tokens not counted."""
            return int(self.first)

        def users(self, ids: Any) -> Any:
            """Return the user of each row of ids (0: generic), by its largest id."""
            users = (ids.amax(dim=-1) - self.first) // len(self.generic)
            return users.clamp(min=GENERIC)

        def as_generic(self, ids: Any) -> Any:
            """Return the same ids with every user's tokens replaced by everybody's."""
            return torch.where(
                ids < self.first, ids, self.first + (ids - self.first) % len(self.generic)
            )

        def forward(self, ids: Any) -> Any:
            soft = ids >= self.first
            vectors = self.words(ids.masked_fill(soft, 0))
            numbers = ids[soft] - self.first
            user, place = numbers // len(self.generic), numbers % len(self.generic)
            tokens = self.generic[place]
            if len(self.offsets):
                offsets = self.offsets[(user - 1).clamp(min=0), place] * self.unit
                tokens = tokens + torch.where((user > GENERIC)[:, None], offsets, 0.0)
            return vectors.masked_scatter(soft[..., None], tokens.to(vectors.dtype))

    return UserTokens


def response_log_probs(model: Any, rows: Sequence[Encoded]) -> Any:
    """Return Σ log p of each row's tokens from its start on (n, float32), read as one batch."""
    torch = import_torch()
    device = next(model.parameters()).device
    longest = max(len(row.ids) for row in rows)
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    seen, wanted = torch.zeros_like(ids), torch.zeros_like(ids, dtype=torch.bool)
    for k, row in enumerate(rows):
        ids[k, : len(row.ids)] = torch.tensor(row.ids)
        seen[k, : len(row.ids)] = 1
        wanted[k, row.start : len(row.ids)] = True
    ids, seen, wanted = (tensor.to(device) for tensor in (ids, seen, wanted[:, 1:]))
    logits = model(input_ids=ids, attention_mask=seen, use_cache=False).logits[:, :-1][wanted]
    lost = torch.nn.functional.cross_entropy(logits.float(), ids[:, 1:][wanted], reduction="none")
    # Row by row: `index_add` sums in another order each time on an accelerator.
    return -torch.zeros(wanted.shape, device=device).masked_scatter(wanted, lost).sum(dim=1)
