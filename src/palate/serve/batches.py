"""Batches of requests that wait; one that cannot be scored fails alone."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from palate.errors import DataError, UsageError
from palate.records import Slate
from palate.rewards import Reward, RewardRequest, RewardValue


class RenderedText(NamedTuple):
    """A conversation closed by its response, as a chat template wrote it; scored as it stands."""

    text: str


Item = RewardRequest | Slate | RenderedText
"""Answers to a question of a user, or a conversation that is scored as it stands."""
ItemValues = tuple[RewardValue, ...]
REFUSED = (UsageError, DataError)
"""What says that a request is wrong; their other kinds say that the engine failed."""
Outcome = list[ItemValues] | Exception
"""The rewards of each item of an entry, or why the entry has none."""


def answers_in(items: Sequence[Item]) -> int:
    """Return how many answers are to be scored.

    >>> answers_in([RewardRequest(row="1", responses=("Tea.", "Coffee.")), RenderedText("Tea.")])
    3
    """
    return sum(len(_answers(item)) for item in items)


def score_together(reward: Reward, entries: Sequence[Sequence[Item]]) -> list[Outcome]:
    """Return the outcome of each entry; all entries share batches.

    An entry that palate refuses fails alone: entries are halved until it stands by itself. That
    costs little, since what is refused is refused before anything is computed. Any other error is
    the outcome of all.
    """
    try:
        return list(_scored(reward, entries))
    except Exception as error:
        if type(error) not in REFUSED or len(entries) == 1:
            return [error for _ in entries]
    middle = len(entries) // 2
    return score_together(reward, entries[:middle]) + score_together(reward, entries[middle:])


def _scored(reward: Reward, entries: Sequence[Sequence[Item]]) -> list[list[ItemValues]]:
    # Trainers send one answer at a time: those to one prompt are read as one slate.
    merged: dict[Hashable, tuple[Item, dict[str, None]]] = {}
    for item in (item for items in entries for item in items):
        merged.setdefault(_key(item), (item, {}))[1].update(dict.fromkeys(_answers(item)))
    wide = {key: _with(item, tuple(answers)) for key, (item, answers) in merged.items()}
    values = {
        **_values(reward.values, wide, RewardRequest),
        **_values(reward.as_it_stands, wide, Slate),
        **_values(lambda items: reward.rendered([it.text for it in items]), wide, RenderedText),
    }
    by_answer = {
        key: dict(zip(_answers(item), values[key], strict=True)) for key, item in wide.items()
    }
    return [
        [tuple(by_answer[_key(item)][answer] for answer in _answers(item)) for item in items]
        for items in entries
    ]


def _values(score: Any, wide: dict[Hashable, Item], kind: type) -> dict[Hashable, ItemValues]:
    chosen = {key: item for key, item in wide.items() if isinstance(item, kind)}
    return dict(zip(chosen, score(list(chosen.values())), strict=True)) if chosen else {}


def _answers(item: Item) -> tuple[str, ...]:
    match item:
        case RewardRequest():
            return item.responses
        case Slate():
            return item.candidates
    return (item.text,)


def _key(item: Item) -> Hashable:
    match item:
        case RewardRequest(user=None):
            return "row", item.row
        case RewardRequest(user=user):
            assert user is not None
            return "user", item.question, item.turns, user.model_dump_json()
        case Slate():
            return "slate", item.prompt_key
    return "text", item.text


def _with(item: Item, answers: tuple[str, ...]) -> Item:
    match item:
        case RewardRequest():
            return item.model_copy(update={"responses": answers})
        case Slate():
            return item.replace(candidates=answers)
    return item
