"""Which posts matter for a question: BM25, dense, or the most recent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from palate.engines import Embedder, load_embedder
from palate.errors import SpecError
from palate.records import Post, Settings
from palate.specs import Reference

Ranking = Callable[[str, Sequence[Post]], list[Post]]
"""(question, posts oldest first) → posts, the most relevant first; ties go to the later post."""


def build_ranking(order: str, settings: Settings) -> tuple[Ranking, str | None]:
    """Return the ranking an `?order=` names, and the fingerprint of the model behind it, if any."""
    kind, _, reference = order.partition(":")
    if kind == "dense" and reference:
        embedder = load_embedder(Reference.parse(reference), settings)
        return dense(embedder), embedder.fingerprint
    if order in ("bm25", "recent"):
        return {"bm25": by_bm25, "recent": by_date}[order], None
    raise SpecError(f"order={order!r} is not one of bm25, recent, dense:REFERENCE")


def by_date(question: str, posts: Sequence[Post]) -> list[Post]:
    """Return the latest first."""
    del question
    return list(posts)[::-1]


def by_bm25(question: str, posts: Sequence[Post]) -> list[Post]:
    """Return posts by BM25 (Lucene's variant, k1 = 1.5, b = 0.75) over lower-cased words.

    >>> posts = [Post(id="1", text="my sourdough rose"), Post(id="2", text="the train was late")]
    >>> [post.id for post in by_bm25("How long should sourdough rise?", posts)]
    ['1', '2']
    """
    import bm25s

    if len(posts) < 2:
        return list(posts)
    texts = [f"{post.category}\n{post.text}" for post in posts]
    tokens = bm25s.tokenize(
        [*texts, question], stopwords="en", show_progress=False, return_ids=False
    )
    *documents, query = tokens
    if not query or not any(documents):
        return by_date(question, posts)
    index = bm25s.BM25()
    index.index(documents, show_progress=False)
    return _ranked(posts, index.get_scores(query))


def dense(embedder: Embedder) -> Ranking:
    """Return a ranking by cosine of sentence embeddings."""

    def rank(question: str, posts: Sequence[Post]) -> list[Post]:
        asked, *found = embedder.embed_all([question, *(post.text for post in posts)])
        return _ranked(posts, [float(asked.vector @ one.vector) for one in found])

    return rank


def _ranked(posts: Sequence[Post], scores: Sequence[float] | np.ndarray) -> list[Post]:
    return [posts[k] for k in sorted(range(len(posts)), key=lambda k: (-scores[k], -k))]
