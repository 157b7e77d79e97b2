"""People who are trained on and evaluated too: they are refused by name."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from palate.benchmarks import Data, Dataset, dataset_of, unsplit
from palate.data import content_hash
from palate.errors import DataError, UsageError, first_line
from palate.records import Question, normal_form, question_key
from palate.records.arguments import listed


def apart_from(data: Data | Iterable[Data], training: Iterable[Question]) -> dict[str, str]:
    """Return each benchmark's content hash; raises as `refuse_overlap` for people trained on."""
    named = {
        each.name if isinstance(each, Dataset) else str(each): dataset_of(each).rows
        for each in listed(data)
    }
    training = list(training)
    for name, evaluated in named.items():
        refuse_overlap(training, evaluated, name)
    return {name: content_hash(evaluated) for name, evaluated in named.items()}


def refuse_trained(trained: Iterable[str], evaluated: Dataset) -> None:
    """Raise `DataError` for an evaluated user of data (all splits) or of a `.txt` of users' ids."""
    for name in trained:
        if not name.endswith(".txt"):
            refuse_overlap(unsplit(name).rows, evaluated.rows, evaluated.name)
            continue
        try:
            text = Path(name).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(f"--disjoint-from {name}: {first_line(error)}") from error
        users = {line.strip() for line in text.splitlines()}
        if both := next((row for row in evaluated.rows if row.user_id in users), None):
            raise DataError(
                f"{name}: user {both.user_id!r} is evaluated in {evaluated.name} too (row "
                f"{both.id!r}); evaluate people that were not trained on"
            )


def refuse_overlap(pairs: Iterable[Question], benchmark: Iterable[Question], name: str) -> None:
    """Raise `DataError` at the first training row of somebody whom the benchmark evaluates.

    That is: a user id, a question with a post of the same profile (or none on either side), or a
    whole profile. Ids differ between releases of a data set; what people wrote does not.
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


def _refuse(pair: Question, name: str, other: str, what: str) -> None:
    raise DataError(
        f"training row {pair.id!r}: {what} is in {name} too (row {other!r}); train on people that "
        "the benchmark does not evaluate"
    )


def _posts(pair: Question) -> frozenset[str]:
    return frozenset(_plain(post.text) for post in pair.profile)


def _question(pair: Question) -> str:
    return question_key(pair.turns, pair.text, _plain)


def _plain(text: str) -> str:
    return normal_form(text).lower()
