"""Which posts matter for a question: BM25, dense, or the most recent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palate.errors import SpecError
from palate.records import Post, Settings
from palate.retrieval.ordering import dense_by, latest_first, nearest_first

Ranking = Callable[[str, Sequence[Post]], list[Post]]
"""(question, posts oldest first) → posts, the most relevant first; ties go to the later post."""


def build_ranking(order: str, settings: Settings) -> tuple[Ranking, str | None]:
    """Return the ranking an `?order=` names, and the fingerprint of the model behind it, if any."""
    kind, _, reference = order.partition(":")
    if kind == "dense" and reference:
        ordering, fingerprint = dense_by(reference, settings)

        def by_cosine(question: str, posts: Sequence[Post]) -> list[Post]:
            return [posts[k] for k in ordering(question, [post.text for post in posts])]

        return by_cosine, fingerprint
    if order in ("bm25", "recent"):
        return {"bm25": by_bm25, "recent": by_date}[order], None
    raise SpecError(f"order={order!r} is not one of bm25, recent, dense:REFERENCE")


def by_date(question: str, posts: Sequence[Post]) -> list[Post]:
    """Return the latest first."""
    return [posts[k] for k in latest_first(question, [post.text for post in posts])]


def by_bm25(question: str, posts: Sequence[Post]) -> list[Post]:
    """Return posts by BM25 over category and text.

    >>> posts = [Post(id="1", text="my sourdough rose"), Post(id="2", text="the train was late")]
    >>> [post.id for post in by_bm25("How long should sourdough rise?", posts)]
    ['1', '2']
    """
    texts = [f"{post.category}\n{post.text}" for post in posts]
    return [posts[k] for k in nearest_first(question, texts)]
