"""Which texts matter for a question: BM25, dense, or the most recent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np

from palate.engines import Embedder
from palate.records import Settings
from palate.seeding import unit
from palate.session import Session
from palate.specs import Reference

Ordering = Callable[[str, Sequence[str]], list[int]]
"""(question, texts oldest first) → positions, the most relevant first; ties go to the later."""
T = TypeVar("T")
Sorting = Callable[[str, Sequence[T]], list[T]]
"""The same of things that have a text: (question, things) → things."""


def latest_first(question: str, texts: Sequence[str]) -> list[int]:
    """Return the latest first."""
    del question
    return list(range(len(texts)))[::-1]


def nearest_first(question: str, texts: Sequence[str]) -> list[int]:
    """Order by BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over lower-cased words.

    >>> nearest_first("How long should sourdough rise?", ["my sourdough rose", "a late train"])
    [0, 1]
    """
    import bm25s

    if len(texts) < 2:
        return list(range(len(texts)))
    tokens = bm25s.tokenize(
        [*texts, question], stopwords="en", show_progress=False, return_ids=False
    )
    *documents, query = tokens
    if not query or not any(documents):
        return latest_first(question, texts)
    index = bm25s.BM25()
    index.index(documents, show_progress=False)
    return _best_first(index.get_scores(query))


def dense(embedder: Embedder) -> Ordering:
    """Order by cosine of sentence embeddings."""

    def order(question: str, texts: Sequence[str]) -> list[int]:
        asked, *found = embedder.embed_all([question, *texts])
        return _best_first([float(asked.vector @ one.vector) for one in found])

    return order


def dense_by(reference: str, session: Session, settings: Settings) -> tuple[Ordering, str]:
    """Return the ordering by this embedder, and the embedder's fingerprint."""
    embedder = session.embedder(Reference.parse(reference), settings)
    return dense(embedder), embedder.fingerprint


def drawn_by(key: Callable[[str, T], Sequence[object]]) -> Sorting[T]:
    """Order at random: by a number drawn for each (question, thing) from its key.

    Leaving one thing out does not move the others.
    """
    return lambda question, things: sorted(things, key=lambda it: unit(*key(question, it)))


def sorted_by(ordering: Ordering, text: Callable[[T], str]) -> Sorting[T]:
    """Order things by their texts."""
    return lambda question, things: [
        things[k] for k in ordering(question, [text(thing) for thing in things])
    ]


def _best_first(scores: Sequence[float] | np.ndarray) -> list[int]:
    return sorted(range(len(scores)), key=lambda k: (-scores[k], -k))
