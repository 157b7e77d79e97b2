"""Whether training data and a benchmark hold the same people."""

from __future__ import annotations

from collections.abc import Iterable

from palate.errors import DataError
from palate.records import PreferencePair, normal_form, question_key


def refuse_overlap(
    pairs: Iterable[PreferencePair], benchmark: Iterable[PreferencePair], name: str
) -> None:
    """Raise `DataError` at the first training row of somebody whom the benchmark evaluates.

    That is: one of its user ids, one of its questions with a post of the same profile (or none on
    either side), or one of its whole profiles. Ids differ between releases of one data set; what
    people wrote does not.
    """
    users: dict[str, str] = {}
    profiles: dict[frozenset[str], str] = {}
    by_question: dict[str, list[tuple[frozenset[str], str]]] = {}
    for pair in benchmark:
        posts = _posts(pair)
        users.setdefault(pair.user_id, pair.id)
        profiles.setdefault(posts, pair.id)
        by_question.setdefault(_question(pair), []).append((posts, pair.id))
    for pair in pairs:
        posts = _posts(pair)
        if pair.user_id in users:
            _refuse(pair, name, users[pair.user_id], f"user {pair.user_id!r}")
        for theirs, other in by_question.get(_question(pair), ()):
            if posts & theirs or not (posts or theirs):
                _refuse(pair, name, other, "its question, asked by somebody of the same profile,")
        if posts and posts in profiles:
            _refuse(pair, name, profiles[posts], "its whole profile")


def _refuse(pair: PreferencePair, name: str, other: str, what: str) -> None:
    raise DataError(
        f"training row {pair.id!r}: {what} is in {name} too (row {other!r}); train on people that "
        "the benchmark does not evaluate"
    )


def _posts(pair: PreferencePair) -> frozenset[str]:
    return frozenset(_plain(post.text) for post in pair.profile)


def _question(pair: PreferencePair) -> str:
    return question_key(pair.turns, pair.text, _plain)


def _plain(text: str) -> str:
    return normal_form(text).lower()
