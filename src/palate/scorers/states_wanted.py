"""Whose state a personal scorer reads, and from how many choices: options that all share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar, cast

from palate.errors import SpecError, UsageError
from palate.records import MOST_STRANGERS, user_key
from palate.seeding import shuffled
from palate.specs import Spec

T = TypeVar("T")
State = Literal["own", "stranger", "prior"]
STATES = ("own", "stranger", "prior")
OPTIONS = frozenset({"state", "users", "shots", "repeat", "minus", "draws"})


class StatesWanted(NamedTuple):
    """`?state=own|stranger|prior&users=FILE&shots=k&repeat=r&minus=prior&draws=N`."""

    state: State
    users: Path | None
    """A file of states, in place of the benchmark's earlier choices."""
    shots: int | None
    """Choices drawn per user; None for all of them."""
    repeat: int
    """Another number draws other choices."""
    minus: bool
    """True where the prior's score is taken off."""
    draws: int
    """Third users whose states a row is scored with, one after another."""

    @classmethod
    def of(cls, spec: Spec) -> StatesWanted:
        """Read a spec's options; raises `UsageError` for shots of a file of states.

        Raises `SpecError` for draws without a stranger, and for more than 256.
        """
        file = spec.options.get("users")
        shots = spec.number("shots", 0) if "shots" in spec.options else None
        if file is not None and shots is not None:
            raise UsageError(f"{spec}: shots are drawn from a benchmark's choices, not from users=")
        if "draws" in spec.options and spec.options.get("state") != "stranger":
            raise SpecError(
                f"spec {str(spec)!r}: draws counts strangers; it goes with state=stranger"
            )
        return cls(
            state=cast(State, spec.choice("state", STATES, "own")),
            users=None if file is None else Path(file).expanduser(),
            shots=shots,
            repeat=spec.number("repeat", 0),
            minus=spec.choice("minus", ("prior", "nothing"), "nothing") == "prior",
            draws=spec.number("draws", 1, least=1, most=MOST_STRANGERS),
        )


def shots_of(
    choices: Mapping[str, Sequence[T]], shots: int | None, seed: int, repeat: int
) -> dict[str, Sequence[T]]:
    """Return the choices that each user's state is learnt from, by their key."""
    keyed = {user_key(user): listed for user, listed in choices.items()}
    return {key: drawn(listed, shots, seed, repeat, key) for key, listed in keyed.items()}


def drawn(listed: Sequence[T], shots: int | None, seed: int, repeat: int, key: str) -> Sequence[T]:
    """Return `shots` of a user's choices, in their order: fewer are part of more; None takes all.

    Another `repeat` draws others.
    """
    if shots is None:
        return listed
    order = shuffled(range(len(listed)), "shots", seed, repeat, key)
    return [listed[k] for k in sorted(order[:shots])]
