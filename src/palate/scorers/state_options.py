"""Options of all personal scorers: whose state is read, from how many choices, and who joined."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, Protocol, Self, TypeVar, cast

from palate.contexts import read_owner
from palate.errors import UsageError
from palate.records import Settings, user_key
from palate.seeding import shuffled
from palate.session import Session
from palate.specs import Spec

T = TypeVar("T")


class StateIndex(Protocol):
    """Users with a state."""

    @property
    def place(self) -> Mapping[str, int]:
        """Where each user's state stands, by key."""


Users = TypeVar("Users", bound=StateIndex)
State = Literal["own", "stranger", "prior"]
OPTIONS = frozenset({"state", "users", "shots", "repeat", "minus", "draws", "same"})


class StateOptions(NamedTuple):
    """`?state=own|stranger|prior&users=FILE&shots=k&repeat=r&minus=prior&draws=N&same=…`."""

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
    same: str
    """Traits that third users share with the user, or `cluster`; empty for any third user."""

    @classmethod
    def of(cls, spec: Spec) -> StateOptions:
        """Read a spec's options; raises `UsageError` for shots of a file, `SpecError` for draws."""
        file = spec.options.get("users")
        shots = spec.number("shots", 0) if "shots" in spec.options else None
        if file is not None and shots is not None:
            raise UsageError(f"{spec}: shots are drawn from a benchmark's choices, not from users=")
        state, draws, same = read_owner(spec, "state", ("own", "prior"))
        return cls(
            state=cast(State, state),
            users=None if file is None else Path(file).expanduser(),
            shots=shots,
            repeat=spec.number("repeat", 0),
            minus=spec.choice("minus", ("prior", "nothing"), "nothing") == "prior",
            draws=draws,
            same=same,
        )


class StatefulScorer(Generic[Users]):
    """A scorer with a state per user: the options of its spec, and whom it knows."""

    users: Users | None = None
    live: frozenset[str] = frozenset()
    """Keys of users who joined; they are nobody's third user."""

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        self.session, self.settings, self.wanted = session, settings, StateOptions.of(spec)
        self.state, self.minus, self.same = self.wanted.state, self.wanted.minus, self.wanted.same

    @property
    def wants_choices(self) -> bool:
        """True until it knows any user's choices or state but those of users who joined."""
        return not self.known and self.state != "prior"

    @property
    def known(self) -> Sequence[str]:
        """Keys of the users with a state who may be third users, sorted."""
        return tuple(sorted(set(self.users.place) - self.live)) if self.users is not None else ()

    def shots(self, choices: Mapping[str, Sequence[T]]) -> dict[str, Sequence[T]]:
        """Return the choices that each user's state is learnt from, by their key."""
        keyed = {user_key(user): listed for user, listed in choices.items()}
        drawn = self.wanted.shots, self.settings.seed, self.wanted.repeat
        return {key: draw_choices(listed, *drawn, key) for key, listed in keyed.items()}

    def like(self, other: Any) -> Self:
        """Return this scorer with the states of another of the same spec, as they were learnt."""
        return self if other.users is None else self.with_users(other.users, other.live)

    def with_users(self, users: Users, live: frozenset[str]) -> Self:
        """Return this scorer with these users' states."""
        copy = object.__new__(type(self))
        copy.__dict__.update({**self.__dict__, "users": users, "live": live})
        return copy


def draw_choices(
    listed: Sequence[T], shots: int | None, seed: int, repeat: int, key: str
) -> Sequence[T]:
    """Return `shots` of a user's choices in order, fewer part of more, by `repeat`; None is all."""
    if shots is None:
        return listed
    order = shuffled(range(len(listed)), "shots", seed, repeat, key)
    return [listed[k] for k in sorted(order[:shots])]
