"""Which votes are evaluated, and which past choices tell how one of them went."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise

from palate.data import TELLING, forbidden_responses, normal
from palate.records import PreferencePair, Question, normal_form

START = TELLING // 4
"""Characters that every response of `TELLING` bytes or more has."""


def vote_of(pair: PreferencePair) -> tuple[str, str, frozenset[str]]:
    """Return who was asked what about which two responses, in normal form, however it went."""
    responses = frozenset((normal_form(pair.chosen), normal_form(pair.rejected)))
    return pair.user_id, pair.normal_key, responses


def what_was_asked(pair: PreferencePair) -> tuple[str, str, frozenset[str]]:
    """Return subset, question and two responses of a vote, in normal form, whoever cast it."""
    return pair.subset, *vote_of(pair)[1:]


class EvaluatedVotes:
    """Votes that are evaluated, and their responses, by user."""

    def __init__(self, rows: Iterable[Question]) -> None:
        pairs = [row for row in rows if isinstance(row, PreferencePair)]
        self.votes = {vote_of(pair) for pair in pairs}
        self._answers: dict[str, set[tuple[str, str]]] = defaultdict(set)
        self._openings: dict[str, dict[str, dict[int, set[str]]]] = {}
        for pair in pairs:
            *before, question = _texts_of(pair)
            answers = {(question, normal(text)) for text in (pair.chosen, pair.rejected)}
            self._answers[pair.user_id] |= answers
            starts = self._openings.setdefault(pair.user_id, {})
            for opening in forbidden_responses(pair.view):
                offered = any(opening in text for text in (*before, question))
                if len(opening.encode()) >= TELLING and not offered:
                    sizes = starts.setdefault(opening[:START], {})
                    sizes.setdefault(len(opening), set()).add(opening)

    def told_by(self, pair: PreferencePair) -> bool:
        """Tell whether a choice is one of them, or was asked with a response of one at hand.

        A user goes on from the response that they chose. So a choice tells a vote of the same user
        if its question or a turn before it holds the opening of a response of 30 bytes or more,
        unless the vote's own question offers that; or if one, however short, follows the vote's
        question there.
        """
        return vote_of(pair) in self.votes or self._asked_with_a_response(pair)

    def _asked_with_a_response(self, pair: PreferencePair) -> bool:
        starts = self._openings.get(pair.user_id)
        if starts is None:
            return False
        texts = _texts_of(pair)
        if not self._answers[pair.user_id].isdisjoint(pairwise(texts)):
            return True
        return any(_holds(text, starts) for text in texts)


def _texts_of(pair: PreferencePair) -> list[str]:
    return [normal(text) for text in (*(turn.content for turn in pair.turns), pair.text)]


def _holds(text: str, starts: dict[str, dict[int, set[str]]]) -> bool:
    # A look-up at each letter: a user may have as many responses as choices.
    places = range(len(text) - START + 1)
    if starts.keys().isdisjoint({text[k : k + START] for k in places}):
        return False
    return any(
        text[k : k + size] in openings
        for k in places
        for size, openings in starts.get(text[k : k + START], {}).items()
    )


def are_mirrors(pair: PreferencePair, other: PreferencePair) -> bool:
    """Tell whether two pairs name each other and are opposite votes of two users."""
    return (
        (pair.mirror_of, other.mirror_of) == (other.id, pair.id)
        and pair.user_id != other.user_id
        and what_was_asked(pair) == what_was_asked(other)
        and normal_form(pair.chosen) == normal_form(other.rejected)
    )
