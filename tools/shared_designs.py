"""Who judges what, for `cover_on_shared.py`: read from a file, or planted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import ndtri

from palate.benchmarks import Dataset, mirrors
from palate.metrics import Clusters
from palate.metrics.arrays import IntArray, id_codes
from palate.records import PreferencePair
from palate.seeding import rng

USERS, QUESTIONS = (3, 10, 50), (5, 20, 100)
SHAPES = ("full", "sparse", "unequal")
RESPONSES = 4
"""Responses of a planted question; each row compares two of them."""
SPREAD = {True: 0.8, False: 1.0}
"""Standard deviation of log counts where under ten users or questions share the rows, and else."""


@dataclass(frozen=True, eq=False)
class Design:
    """Users, questions and responses of rows, or of mirrored couples."""

    name: str
    clusters: Clusters
    fixed_choices: bool
    """Whether the first response of each row is the chosen one; planted users choose anew."""

    @property
    def questions(self) -> IntArray:
        """The question of each row."""
        assert self.clusters.questions is not None
        return self.clusters.questions

    @property
    def texts(self) -> tuple[IntArray, IntArray]:
        """Both responses of each row."""
        assert self.clusters.texts is not None
        first, second = self.clusters.texts
        return first, second

    @property
    def many_questions(self) -> bool:
        """Whether questions, and not texts, are what a population is drawn of."""
        return 2 * int(np.bincount(self.questions).max()) <= len(self.clusters)

    def by_user_alone(self) -> Clusters:
        """Return the clusters as if nothing were known of questions and texts."""
        return Clusters(self.clusters.users)


def file_designs(name: str, pairs: Dataset) -> Iterator[Design]:
    """Yield the rows of a file, and its mirrored couples where there are any."""
    yield _rows_design(name, pairs.pairs)
    if not _disagreeing(pairs.pairs):
        return
    coupled = mirrors(pairs)
    couples = [(coupled.pairs[i], coupled.pairs[j]) for i, j in coupled.couples]
    yield Design(
        name,
        Clusters.of(
            [ours.user_id for ours, _ in couples],
            [theirs.user_id for _, theirs in couples],
            questions=[ours.text for ours, _ in couples],
            texts=([ours.chosen for ours, _ in couples], [ours.rejected for ours, _ in couples]),
        ),
        fixed_choices=True,
    )


def of_question(pairs: Sequence[PreferencePair], prefix: str | None) -> list[PreferencePair]:
    """Return the rows of the question that begins so, or of the one with most rows."""
    codes, questions = id_codes([pair.key for pair in pairs])
    counts = np.bincount(codes)
    if prefix is None:
        wanted = int(counts.argmax())
    else:
        matching = [k for k, text in enumerate(questions) if str(text).startswith(prefix)]
        if len(matching) != 1:
            raise SystemExit(f"{len(matching)} questions begin with {prefix!r}; one must")
        wanted = matching[0]
    return [pair for pair, code in zip(pairs, codes.tolist(), strict=True) if code == wanted]


def planted_designs() -> Iterator[tuple[Design, Design]]:
    """Yield the rows of each planted design, and couples of its users."""
    for n_users, n_questions, shape in product(USERS, QUESTIONS, SHAPES):
        yield planted_design(n_users, n_questions, shape)


def planted_design(n_users: int, n_questions: int, shape: str) -> tuple[Design, Design]:
    """Return who answers what, as rows and as mirrored couples.

    full: every user answers every question once. sparse: a fifth of the users answer a question, at
    least three (two of three). unequal: as many rows as full, log-normal numbers by user and by
    question.
    """
    stream = rng("shared design", n_users, n_questions, shape)
    if shape == "full":
        users, questions = (
            side.ravel() for side in np.indices((n_users, n_questions), dtype=np.int64)
        )
    elif shape == "sparse":
        each = max(min(3, n_users - 1), n_users // 5)
        users = _by_turns(n_users, n_questions, each, stream)
        questions = np.repeat(np.arange(n_questions), each)
    else:
        rows = n_users * n_questions
        users = stream.permutation(np.repeat(np.arange(n_users), _counts(n_users, rows)))
        questions = np.repeat(np.arange(n_questions), _counts(n_questions, rows))
        questions = questions[: users.size]
        users = users[: questions.size]
    name = f"{n_users} × {n_questions} {shape}"
    rows_design = Design(
        name,
        Clusters.of(users, questions=questions, texts=_texts(questions, stream)),
        fixed_choices=False,
    )
    first, second, asked = _couples(users, questions, stream)
    couples = Design(
        name,
        Clusters.of(first, second, questions=asked, texts=_texts(asked, stream)),
        fixed_choices=True,
    )
    return rows_design, couples


def _by_turns(n_users: int, n_questions: int, each: int, stream: np.random.Generator) -> IntArray:
    """Return different users for every question, those who have answered least."""
    answered = np.zeros(n_users)
    users = np.empty((n_questions, each), dtype=np.int64)
    for question in range(n_questions):
        users[question] = np.argsort(answered + stream.random(n_users))[:each]
        answered[users[question]] += 1
    return users.ravel()


def _counts(size: int, rows: int) -> IntArray:
    shares = np.exp(SPREAD[size < 10] * ndtri((np.arange(size) + 0.5) / size))
    return np.maximum(1, np.round(rows * shares / shares.sum())).astype(np.int64)


def _texts(questions: IntArray, stream: np.random.Generator) -> tuple[IntArray, IntArray]:
    pairs = stream.permuted(np.tile(np.arange(RESPONSES), (questions.size, 1)), axis=1)
    return questions * RESPONSES + pairs[:, 0], questions * RESPONSES + pairs[:, 1]


def _couples(
    users: IntArray, questions: IntArray, stream: np.random.Generator
) -> tuple[IntArray, IntArray, IntArray]:
    """Put the users of each question in a circle; neighbours are a couple."""
    circles: list[tuple[IntArray, IntArray, IntArray]] = []
    for question in np.unique(questions):
        circle = stream.permutation(users[questions == question])
        first, second = circle, np.roll(circle, 1)
        if circle.size == 2:
            first, second = first[:1], second[:1]
        apart = first != second
        circles.append((first[apart], second[apart], np.full(int(apart.sum()), question)))
    first, second, asked = (np.concatenate(side) for side in zip(*circles, strict=True))
    return first, second, asked


def _rows_design(name: str, pairs: Sequence[PreferencePair]) -> Design:
    clusters = Clusters.of(
        [pair.user_id for pair in pairs],
        questions=[pair.key for pair in pairs],
        texts=([pair.chosen for pair in pairs], [pair.rejected for pair in pairs]),
    )
    return Design(name, clusters, fixed_choices=True)


def _disagreeing(pairs: Iterable[PreferencePair]) -> bool:
    chosen: dict[tuple[str, str, str], set[str]] = {}
    for pair in pairs:
        chosen.setdefault((pair.key, pair.chosen, pair.rejected), set()).add(pair.user_id)
    return any(
        len(voters | chosen.get((question, rejected, preferred), set())) > 1
        for (question, preferred, rejected), voters in chosen.items()
        if (question, rejected, preferred) in chosen
    )
