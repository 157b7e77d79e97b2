"""Which texts matter for a question: BM25, dense, the most recent, or any at random."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from functools import cache
from importlib.abc import MetaPathFinder
from itertools import chain
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from palate.errors import SpecError
from palate.records import Post, Settings
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
Ranking = Sorting[Post]
"""(question, posts oldest first) → posts, the most relevant first; ties go to the later post."""


def latest_first(question: str, texts: Sequence[str]) -> Ranked[int]:
    """Return the latest first."""
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
    *documents, query = [[*terms, *more] for terms, more in zip(words, letters, strict=True)]
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


def dense_by(reference: str, session: Session, settings: Settings) -> tuple[Ordering, str]:
    """Return the ordering by cosine of this embedder's vectors, and the embedder's fingerprint."""
    embedder = session.embedder(Reference.parse(reference), settings)

    def order(question: str, texts: Sequence[str]) -> Ranked[int]:
        asked, *embeddings = embedder.embed_all([question, *texts])
        return Ranked(_best_first([float(asked.vector @ text.vector) for text in embeddings]))

    return order, embedder.fingerprint


def drawn_by(key: Callable[[str, T], Sequence[object]]) -> Sorting[T]:
    """Order at random: by a number drawn for each (question, thing) from its key.

    Leaving one thing out does not move the others.
    """
    return lambda question, things: Ranked(sorted(things, key=lambda t: unit(*key(question, t))))


def sorted_by(ordering: Ordering, text: Callable[[T], str]) -> Sorting[T]:
    """Order things by their texts."""

    def order(question: str, things: Sequence[T]) -> Ranked[T]:
        positions, matched = ordering(question, [text(thing) for thing in things])
        return Ranked([things[k] for k in positions], matched)

    return order


def _best_first(scores: Sequence[float] | np.ndarray) -> list[int]:
    return sorted(range(len(scores)), key=lambda k: (-scores[k], -k))


def build_ranking(order: str, session: Session, settings: Settings) -> tuple[Ranking, str | None]:
    """Return the ranking an `?order=` names, and the fingerprint of the model behind it, if any.

    BM25 reads category and text, the others the text.

    >>> posts = [Post(id="1", text="my sourdough rose"), Post(id="2", text="the train was late")]
    >>> rank, _ = build_ranking("bm25", Session(), Settings())
    >>> [post.id for post in rank("How long should sourdough rise?", posts).things]
    ['1', '2']
    """
    kind, _, reference = order.partition(":")
    if kind == "dense" and reference:
        ordering, fingerprint = dense_by(reference, session, settings)
        return sorted_by(ordering, lambda post: post.text), fingerprint
    if order == "bm25":
        return sorted_by(nearest_first, lambda post: f"{post.category}\n{post.text}"), None
    if order == "recent":
        return sorted_by(latest_first, lambda post: post.text), None
    if order == "random":
        seed = settings.seed
        return drawn_by(lambda q, post: ("post", seed, q, post.category, post.text)), None
    raise SpecError(f"order={order!r} is not one of bm25, recent, random, dense:REFERENCE")
