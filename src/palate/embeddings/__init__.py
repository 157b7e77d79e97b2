"""Responses as vectors, computed once and kept on disk."""

from palate.embeddings.features import Features, build_features
from palate.embeddings.items import items_of, plain_item

__all__ = [
    "Features",
    "build_features",
    "items_of",
    "plain_item",
]
