"""A trained personal policy on disk: the merged model, everybody's soft tokens, the facts."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.errors import ModelError, writing
from palate.files import write_whole
from palate.learning.personal.states import UserStates, read_tensors
from palate.models import resolve
from palate.seeding import digest
from palate.specs import Reference

KIND, METHOD = "personal-policy", "p-dpo"
FACTS, POLICY = "palate.json", "policy"
TOKENS, USERS = "user_tokens.safetensors", "users.safetensors"
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
        return digest(KIND, METHOD, content, *made)

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
        known = {"schema", "kind", "method", "first", "unit", "prior_std", "beta", "base"}
        return cls(
            folder,
            tensors["generic"],
            facts["first"],
            facts["unit"],
            facts["prior_std"],
            facts["beta"],
            facts["base"],
            {name: value for name, value in facts.items() if name not in known},
        )


def is_policy(folder: Path) -> bool:
    """Tell whether a folder holds a personal policy rather than a model on vectors."""
    said = read_facts(folder)
    return said is not None and said.get("kind") == KIND


def read_facts(folder: Path) -> dict[str, Any] | None:
    """Return what a trained model's folder says of itself; None where it says nothing."""
    try:
        said = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return said if isinstance(said, dict) else None


def write(folder: Path, generic: NDArray[np.float32], facts: Mapping[str, Any]) -> None:
    """Write e_0 beside the policy's weights, and `palate.json`.

    Raises `ResourceError` where the disk refuses.
    """
    from safetensors.numpy import save

    text = json.dumps({"schema": 1, "kind": KIND, "method": METHOD, **facts}, indent=1) + "\n"
    with writing(folder):
        write_whole(folder / POLICY / TOKENS, save({"generic": np.ascontiguousarray(generic)}))
        write_whole(folder / FACTS, text)
