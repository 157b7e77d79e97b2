"""Which texts matter for a question: BM25, dense, or the most recent."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from palate.engines import Embedder
from palate.records import Settings
from palate.seeding import unit
from palate.session import Session
from palate.specs import Reference
from palate.words import TERM, search_terms

T = TypeVar("T")


class Ranked(NamedTuple, Generic[T]):
    """Things, the most relevant first."""

    things: list[T]
    matched: bool = True
    """False where a search shares no term with any text, so that the latest come first."""


Ordering = Callable[[str, Sequence[str]], Ranked[int]]
"""(question, texts oldest first) → positions, the most relevant first; ties go to the later."""
Sorting = Callable[[str, Sequence[T]], Ranked[T]]
"""The same of things that have a text: (question, things) → things."""


def latest_first(question: str, texts: Sequence[str]) -> Ranked[int]:
    """Return the latest first."""
    del question
    return Ranked(list(range(len(texts)))[::-1])


def nearest_first(question: str, texts: Sequence[str]) -> Ranked[int]:
    """Order by BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over lower-cased words.

    Scripts without spaces are searched by pairs of letters, and Han by single characters too.

    >>> nearest_first("How long should sourdough rise?", ["my sourdough rose", "a late train"])
    Ranked(things=[0, 1], matched=True)
    >>> nearest_first("晚上喝什么茶？", ["我只喝红茶", "火车晚点"]).things
    [0, 1]
    """
    bm25s = _import_bm25s()
    if len(texts) < 2:
        return Ranked(list(range(len(texts))))
    spaced, letters = zip(*map(search_terms, [*texts, question]), strict=True)
    words = bm25s.tokenize(
        list(spaced), token_pattern=TERM, stopwords="en", show_progress=False, return_ids=False
    )
    *documents, query = [[*each, *more] for each, more in zip(words, letters, strict=True)]
    if {*query}.isdisjoint(chain.from_iterable(documents)):
        return Ranked(latest_first(question, texts).things, matched=False)
    index = bm25s.BM25()
    index.index(documents, show_progress=False)
    return Ranked(_best_first(index.get_scores(query)))


@cache
def _import_bm25s() -> Any:
    """Import bm25s without JAX.

    Where JAX is installed, bm25s starts it to sort, and JAX takes three quarters of an
    accelerator's memory at once. Scores, which are all that is asked for here, need none of it.
    """
    hidden = _WithoutJax()
    sys.meta_path.insert(0, hidden)
    try:
        import bm25s
    finally:
        sys.meta_path.remove(hidden)
    return bm25s


class _WithoutJax(MetaPathFinder):
    """Finds no JAX in the thread that made this."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == "jax" and threading.get_ident() == self.thread:
            raise ModuleNotFoundError("JAX is not asked for", name=name)


def dense(embedder: Embedder) -> Ordering:
    """Order by cosine of sentence embeddings."""

    def order(question: str, texts: Sequence[str]) -> Ranked[int]:
        asked, *found = embedder.embed_all([question, *texts])
        return Ranked(_best_first([float(asked.vector @ one.vector) for one in found]))

    return order


def dense_by(reference: str, session: Session, settings: Settings) -> tuple[Ordering, str]:
    """Return the ordering by this embedder, and the embedder's fingerprint."""
    embedder = session.embedder(Reference.parse(reference), settings)
    return dense(embedder), embedder.fingerprint


def drawn_by(key: Callable[[str, T], Sequence[object]]) -> Sorting[T]:
    """Order at random: by a number drawn for each (question, thing) from its key.

    Leaving one thing out does not move the others.
    """
    return lambda question, things: Ranked(sorted(things, key=lambda it: unit(*key(question, it))))


def sorted_by(ordering: Ordering, text: Callable[[T], str]) -> Sorting[T]:
    """Order things by their texts."""

    def order(question: str, things: Sequence[T]) -> Ranked[T]:
        positions, matched = ordering(question, [text(thing) for thing in things])
        return Ranked([things[k] for k in positions], matched)

    return order


def _best_first(scores: Sequence[float] | np.ndarray) -> list[int]:
    return sorted(range(len(scores)), key=lambda k: (-scores[k], -k))
