"""Responses as vectors, computed once and kept on disk."""

from palate.embeddings.features import Features, build_features
from palate.embeddings.items import Item, items_of, plain_item
from palate.embeddings.sources import VectorSource
from palate.embeddings.store import EmbeddingStore

__all__ = [
    "EmbeddingStore",
    "Features",
    "Item",
    "VectorSource",
    "build_features",
    "items_of",
    "plain_item",
]
