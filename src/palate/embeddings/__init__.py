"""Responses as vectors, computed once and kept on disk."""

from palate.embeddings.features import (
    Features,
    HiddenStates,
    Item,
    build_features,
    items_of,
    plain_item,
    style_of,
)
