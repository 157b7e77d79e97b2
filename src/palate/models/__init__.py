"""From references to weights on disk, and the set-up of torch."""

from palate.models.gguf import save_tokenizer
from palate.models.loading import (
    Part,
    fill,
    load_embedder,
    load_part,
    load_weights,
    read_tensors,
)
from palate.models.merging import merge
from palate.models.resolve import (
    ModelFolder,
    ModelFolders,
    cached_snapshot,
    content_hash,
    resolve,
)
from palate.models.runtime import choose_device, choose_dtype, import_torch, import_transformers

__all__ = [
    "ModelFolder",
    "ModelFolders",
    "Part",
    "cached_snapshot",
    "choose_device",
    "choose_dtype",
    "content_hash",
    "fill",
    "import_torch",
    "import_transformers",
    "load_embedder",
    "load_part",
    "load_weights",
    "merge",
    "read_tensors",
    "resolve",
    "save_tokenizer",
]
