"""A choice as token ids: once for everybody, soft tokens to be put in where they are needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from palate.engines import ChatTemplate
from palate.learning.recipes.tuning import EncodedChoice, encode_choice
from palate.records import Choice


class Fitting(NamedTuple):
    """The choices of each user that a window holds."""

    choices: dict[str, list[EncodedChoice]]
    n_too_long: int


def encode_choices(
    template: ChatTemplate, history: Mapping[str, Sequence[Choice]], limit: float
) -> Fitting:
    """Encode choices as the scorers read them, with nothing shown; the long ones are counted."""
    by_user: dict[str, list[EncodedChoice]] = {}
    n_too_long = 0
    for user, listed in history.items():
        encoded = [encode_choice(choice, template) for choice in listed]
        by_user[user] = [it for it in encoded if it.width <= limit]
        n_too_long += len(encoded) - len(by_user[user])
    return Fitting(by_user, n_too_long)
