"""From a spec to a scorer or judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from inspect import signature
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

from palate.contexts import NOTHING, equal_but_draws, of_stranger, shows, strangers_of
from palate.errors import SpecError, UsageError
from palate.learning import is_policy
from palate.records import Judge, Scorer, ScorerInfo, Scores, Settings, Slate
from palate.records.arguments import ObjectName, shown
from palate.scorers.state_options import State
from palate.session import Session
from palate.specs import Spec, load

GROUP = "palate.scorers"
FORM = "f(question, response, user)"
Rater: TypeAlias = str | Scorer | Judge | Callable[..., Any]
"""A spec, an object, or a function of (question, response, user)."""


def build_scorer(spec: Rater, session: Session, settings: Settings | None = None) -> Scorer | Judge:
    """Build what a spec names, palate's own or an installed package's; an object is what it is.

    What is registered under `palate.scorers` is called with (spec, session, settings). A function
    of (question, response, user) becomes a scorer. Raises `UsageError` for anything else.

    >>> type(build_scorer("longest", Session())).__name__
    'Longest'
    """
    if not isinstance(spec, str):
        if isinstance(spec, Scorer | Judge) and not isinstance(spec, type):
            return spec
        if callable(spec) and not isinstance(spec, type):
            return FunctionScorer(spec)
        raise UsageError(
            f"scorer {shown(spec)}: expected a spec, an object with score() or judge(), or a "
            f"function {FORM}"
        )
    parsed = Spec.parse(spec)
    made = _maker(parsed)(parsed, session, settings or Settings())
    if not isinstance(made, Scorer | Judge):
        raise SpecError(f"{spec}: {type(made).__name__} has neither score() nor judge()")
    return made


def spec_of(scorer: Scorer | Judge, text: str | None, name: str | None = None) -> str:
    """Return what a scorer is called: without options that change no number, as a time-out."""
    if text is None or isinstance(text, ObjectName):
        return str(text or name or type(scorer).__name__)
    own = getattr(scorer, "canonical", None)
    return own if isinstance(own, str) else str(Spec.parse(text))


def _maker(spec: Spec) -> Any:
    if spec.kind == "classifier" and (spec.reference or "").startswith("api:"):
        from palate.scorers.reward_server import RewardServer

        return RewardServer
    if spec.kind == "personal" and is_policy(Path(spec.reference or "").expanduser()):
        from palate.scorers.personal_policy import PersonalPolicyScorer

        return PersonalPolicyScorer
    if spec.kind == "personal" and spec.options.get("state") == "stranger":
        from palate.scorers.personal import ThirdUsers

        return ThirdUsers
    return load(GROUP, spec.kind)


class FunctionScorer:
    """Gives each response what a function of (question, response, user) returns.

    `user` is a tuple of the texts that the context shows of the user. None is no score. The
    function may have an `info`, as a scorer has.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__))
        info = getattr(function, "info", None)
        if isinstance(info, ScorerInfo):
            self.info = info
        try:
            signature(function).bind("", "", ())
        except TypeError as error:
            raise UsageError(f"scorer {self.name}: expected a function {FORM} ({error})") from None
        except ValueError:  # some of those built into Python do not tell
            pass

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield the function's numbers; raises `UsageError` for what is no number."""
        for position, slate in enumerate(slates):
            question = "\n\n".join(message.content for message in slate.question)
            user = tuple(part.text for part in slate.shown)
            values = [self.function(question, response, user) for response in slate.candidates]
            for value in values:
                if value is not None and not isinstance(value, Real):
                    raise UsageError(f"scorer {self.name} gave {shown(value)}: expected a number")
            numbers = [None if value is None else float(value) for value in values]
            reasons = ["no score" if value is None else None for value in values]
            yield position, Scores.of(numbers, reasons)


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
        others = [] if self.reads_stranger else [*among]
        contexts = [other.context for other in others if other.scorer == self.scorer]
        if by_text := strangers_of(self.context, contexts):
            return [self._replace(context=context) for context in by_text]
        scorers = [other.scorer for other in others if other.context == self.context]
        by_state = scorers_with_state(self.scorer, "stranger", scorers)
        return [self._replace(scorer=scorer) for scorer in by_state]


def state_of(scorer: str) -> str:
    """Return whose state a scorer reads: `own`, where it does not say otherwise.

    >>> state_of("longest"), state_of("personal:./lore?draws=3&state=stranger")
    ('own', 'stranger')
    """
    spec = Spec.read(scorer)
    return "own" if spec is None else spec.options.get("state", "own")


def with_state(scorer: str, state: State, same: str | None = None) -> str:
    """Return the spec of a scorer that reads another state.

    >>> with_state("personal:./lore?state=prior", "own"), with_state("personal:./lore", "prior")
    ('personal:./lore', 'personal:./lore?state=prior')
    """
    return str(Spec.parse(scorer).having(state=None if state == "own" else state, same=same))


def scorers_with_state(
    scorer: str, state: State, among: Iterable[str], *, of_kind: bool = False
) -> list[str]:
    """Return those that are this scorer with another state (of one `of_kind`), whatever draws.

    >>> others = ["personal:./lore", "personal:./lore?draws=3&state=stranger"]
    >>> scorers_with_state("personal:./lore", "stranger", others)
    ['personal:./lore?draws=3&state=stranger']
    """
    if Spec.read(scorer) is None:
        return []
    return equal_but_draws(Spec.parse(with_state(scorer, state)), among, of_kind=of_kind)


def draws_of(scorer: str) -> str | None:
    """Return how many strangers a scorer's spec asks for; None where it does not say.

    >>> draws_of("personal:./lore?draws=3&state=stranger"), draws_of("longest")
    ('3', None)
    """
    spec = Spec.read(scorer)
    return None if spec is None else spec.options.get("draws")
