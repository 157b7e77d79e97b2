"""Which posts matter for a question: BM25, dense, the most recent, or any at random."""

from __future__ import annotations

from palate.errors import SpecError
from palate.records import Post, Settings
from palate.retrieval.ordering import (
    Sorting,
    dense_by,
    drawn_by,
    latest_first,
    nearest_first,
    sorted_by,
)
from palate.session import Session

Ranking = Sorting[Post]
"""(question, posts oldest first) → posts, the most relevant first; ties go to the later post."""


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
