"""Responses as vectors, computed once and kept on disk."""

from palate.embeddings.features import Features, build_features
from palate.embeddings.items import Item, items_of, plain_item
from palate.embeddings.sources import HiddenStates

__all__ = [
    "Features",
    "HiddenStates",
    "Item",
    "build_features",
    "items_of",
    "plain_item",
]
