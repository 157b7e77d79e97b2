"""From what users chose to vectors: the raw material of every method."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.embeddings import Features, plain_item
from palate.learning.personal.choices import Choices
from palate.records import Choice, Progress


class Gathered(NamedTuple):
    """Choices as unscaled vectors, and those that could not be embedded."""

    choices: Choices
    n_too_long: int
    """Choices left out: a conversation is longer than the embedder's window."""


def gather(
    features: Features,
    by_user: Sequence[Iterable[Choice]],
    *,
    prompts: bool = False,
    progress: Progress | None = None,
) -> Gathered:
    """Embed every response once and return the choices of users 0, 1, … in the order given."""
    owned = [(user, choice) for user, listed in enumerate(by_user) for choice in listed]
    places: dict[tuple[str, str], int] = {}
    sides = [
        [places.setdefault((c.key, text), len(places)) for text in (c.chosen, c.rejected)]
        for _, c in owned
    ]
    conversations = {c.key: c.messages for _, c in owned}
    items = [plain_item(conversations[question], response) for question, response in places]
    table = features.table(items, progress)
    usable: NDArray[np.bool_] = np.asarray(np.isfinite(table).all(axis=1))
    questions = features.prompts(items) if prompts else None
    if questions is not None:
        usable = usable & np.asarray(np.isfinite(questions).all(axis=1))
        questions = np.nan_to_num(questions)
    rows = np.array(sides, np.int64).reshape(-1, 2)
    fits = usable[rows].all(axis=1) if len(rows) else np.empty(0, bool)
    users = np.array([user for user, _ in owned], np.int64)
    code: dict[str, int] = {}
    question = np.array([code.setdefault(asked_of, len(code)) for asked_of, _ in places], np.int64)
    choices = Choices(
        np.nan_to_num(table),
        users[fits],
        rows[fits, 0],
        rows[fits, 1],
        users=len(by_user),
        prompts=questions,
        question=question,
    )
    return Gathered(choices, int((~fits).sum()))
