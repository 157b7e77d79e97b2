"""A scorer under a context, and the controls it is held to: nothing, nobody's state, a stranger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Self

from palate.contexts.controls import NOTHING, of_stranger, shows, strangers_of
from palate.errors import SpecError
from palate.scorers.state_options import State
from palate.specs import Spec


class ScorerInContext(NamedTuple):
    """A scorer under a context, by their canonical specs."""

    scorer: str
    context: str

    @property
    def nothing(self) -> Self:
        """The same scorer, shown nothing."""
        return self._replace(context=NOTHING)

    @property
    def reads_stranger(self) -> bool:
        """Whether it is shown a stranger's text, or reads a stranger's state."""
        return shows(self.context) == "stranger" or state_of(self.scorer) == "stranger"

    def of_stranger(self, *, by_state: bool) -> Self:
        """Return the same with a stranger in the user's place, by state or by what is shown.

        >>> print(*ScorerInContext("longest", "profile:5").of_stranger(by_state=False))
        longest profile:5?of=stranger
        >>> print(*ScorerInContext("personal:./lore", "none").of_stranger(by_state=True))
        personal:./lore?state=stranger none
        """
        if by_state:
            return self._replace(scorer=with_state(self.scorer, "stranger"))
        return self._replace(context=of_stranger(self.context))

    def strangers(self, among: Iterable[Self]) -> list[Self]:
        """Return those that show as much of a stranger, or else read a stranger's state.

        Their draws may be others; what reads a stranger itself has none.

        >>> user, stranger = (ScorerInContext("longest", f"profile:2{of}")
        ...                   for of in ("", "?of=stranger"))
        >>> user.strangers([user, stranger]) == [stranger], stranger.strangers([user, stranger])
        (True, [])
        """
        if self.reads_stranger:
            return []
        every = [*among]
        by_text = strangers_of(
            self.context, [it.context for it in every if it.scorer == self.scorer]
        )
        if by_text:
            return [self._replace(context=context) for context in by_text]
        by_state = scorers_with_state(
            self.scorer, "stranger", [it.scorer for it in every if it.context == self.context]
        )
        return [self._replace(scorer=scorer) for scorer in by_state]


def state_of(scorer: str) -> str:
    """Return whose state a scorer reads: `own`, where it does not say otherwise.

    >>> state_of("longest"), state_of("personal:./lore?draws=3&state=stranger")
    ('own', 'stranger')
    """
    spec = _read(scorer)
    return "own" if spec is None else spec.options.get("state", "own")


def with_state(scorer: str, state: State) -> str:
    """Return the spec of a scorer that reads another state.

    >>> with_state("personal:./lore?state=prior", "own"), with_state("personal:./lore", "prior")
    ('personal:./lore', 'personal:./lore?state=prior')
    """
    return str(Spec.parse(scorer).having(state=None if state == "own" else state))


def scorers_with_state(scorer: str, state: State, among: Iterable[str]) -> list[str]:
    """Return those of these scorers that are this one with another state, whatever their draws.

    >>> others = ["personal:./lore", "personal:./lore?draws=3&state=stranger"]
    >>> scorers_with_state("personal:./lore", "stranger", others)
    ['personal:./lore?draws=3&state=stranger']
    """
    spec = _read(scorer)
    if spec is None:
        return []
    wanted = Spec.parse(with_state(scorer, state)).having(draws=None)
    others = ((other, _read(other)) for other in among)
    return [other for other, read in others if read and read.having(draws=None) == wanted]


def draws_of(scorer: str) -> str | None:
    """Return how many strangers a scorer's spec asks for; None where it does not say.

    >>> draws_of("personal:./lore?draws=3&state=stranger"), draws_of("longest")
    ('3', None)
    """
    spec = _read(scorer)
    return None if spec is None else spec.options.get("draws")


def _read(scorer: str) -> Spec | None:
    try:
        return Spec.parse(scorer)
    except SpecError:  # an object's own name
        return None
