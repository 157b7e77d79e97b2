"""States of users in one file: safetensors with the users' keys in its header."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate.errors import ModelError, writing
from palate.files import write_whole
from palate.records import Choice
from palate.seeding import digest

SCHEMA = "1"
History = Mapping[str, Sequence[Choice]]
"""What users chose, by their ids or keys."""
States = Mapping[str, NDArray[np.float32]]
"""What is kept of users: named arrays whose first axis is the user."""


@dataclass(frozen=True)
class UserStates:
    """States of some users under one model."""

    keys: tuple[str, ...]
    """`user_key` of each user, in the order of the arrays."""
    states: States
    model: str
    """Fingerprint of the model they belong to."""
    n_too_long: int = 0
    """Choices that were left out: a conversation is longer than the embedder's window."""

    @cached_property
    def place(self) -> Mapping[str, int]:
        """Where each user's state stands."""
        return {key: k for k, key in enumerate(self.keys)}

    def joined_by(self, others: UserStates) -> UserStates:
        """Return these users and the others; who is in both has the others' state.

        Example:
            >>> ann, bob = (UserStates((k,), {"w": np.ones((1, 2)) * n}, "m")
            ...             for n, k in enumerate(("ann", "bob")))
            >>> ann.joined_by(bob).states["w"].tolist()
            [[0.0, 0.0], [1.0, 1.0]]
        """
        n_too_long = self.n_too_long + others.n_too_long
        left = self.of(set(self.keys) - others.place.keys())
        return replace(concatenated((left, others)), n_too_long=n_too_long)

    def of(self, keys: Collection[str]) -> UserStates:
        """Return those of these users that are there."""
        here = [k for k, key in enumerate(self.keys) if key in keys]
        states = {name: array[here] for name, array in self.states.items()}
        return replace(self, keys=tuple(self.keys[k] for k in here), states=states, n_too_long=0)

    @property
    def bytes_each(self) -> float:
        """Bytes of one user's state."""
        return sum(array.nbytes for array in self.states.values()) / max(1, len(self.keys))

    @cached_property
    def content(self) -> str:
        """Hash of keys and numbers."""
        arrays = {name: hash_of(array) for name, array in sorted(self.states.items())}
        return digest("states", self.model, list(self.keys), arrays)

    def save(self, path: Path) -> None:
        """Write the file; raises `ResourceError` where it cannot be written."""
        with writing(path):
            write_whole(path, self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the file's bytes."""
        header = {"schema": SCHEMA, "model": self.model, "users": json.dumps(self.keys)}
        return bytes_of(self.states, header)

    @classmethod
    def load(cls, path: Path, model: str) -> UserStates:
        """Read the file; raises `ModelError` for one of another model, or that is none."""
        try:
            return cls.of_bytes(path.read_bytes(), str(path), model)
        except OSError as error:
            raise ModelError(f"{path}: cannot be read ({error})") from error

    @classmethod
    def of_bytes(cls, content: bytes, where: str, model: str) -> UserStates:
        """Read a file's bytes; raises `ModelError` as `load` does."""
        header, arrays = tensors_of(content, where)
        if header.get("schema") != SCHEMA or "users" not in header:
            raise ModelError(f"{where}: no file of user states")
        if header.get("model") != model:
            raise ModelError(f"{where}: states of another model; adapt its users again")
        return cls(tuple(json.loads(header["users"])), arrays, model)


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Return header and arrays of a safetensors file; raises `ModelError` naming it."""
    try:
        return tensors_of(path.read_bytes(), str(path))
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error})") from error


def bytes_of(arrays: Mapping[str, NDArray[Any]], header: Mapping[str, str] | None = None) -> bytes:
    """Return a safetensors file of these arrays."""
    from safetensors.numpy import save

    laid_out = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(laid_out, metadata=None if header is None else dict(header))


def tensors_of(content: bytes, where: str) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Return header and arrays of a safetensors file's bytes; raises `ModelError`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        arrays = load(content)
    except SafetensorError as error:
        raise ModelError(f"{where}: cannot be read ({error})") from error
    length = int.from_bytes(content[:8], "little")  # of the header, which is JSON
    return json.loads(content[8 : 8 + length]).get("__metadata__", {}), arrays


def concatenated(parts: Sequence[UserStates]) -> UserStates:
    """Return the states of several groups of users under one model."""
    first = parts[0]
    arrays = {name: np.concatenate([part.states[name] for part in parts]) for name in first.states}
    return UserStates(tuple(key for part in parts for key in part.keys), arrays, first.model)


def history_hash(history: History) -> str:
    """Return the hash of all that users chose (user → choices)."""
    choices = {user: [it.model_dump() for it in listed] for user, listed in history.items()}
    return digest("history", choices)


def hash_of(array: NDArray[Any]) -> str:
    """Return the hash of an array's numbers."""
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def take(states: States, users: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    """Return the states of these users, in this order."""
    return {name: array[users] for name, array in states.items()}


def repeated(prior: States, n: int) -> dict[str, NDArray[np.float32]]:
    """Return n copies of one user's state."""
    return {name: np.repeat(array, n, axis=0) for name, array in prior.items()}
