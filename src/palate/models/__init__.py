"""From references to weights on disk, and the set-up of torch."""

from palate.models.gguf import save_tokenizer
from palate.models.loading import load_part, load_weights
from palate.models.merging import merge
from palate.models.resolve import ModelFolder, ModelFolders, content_hash, resolve
from palate.models.runtime import choose_device, choose_dtype, import_torch, import_transformers

__all__ = [
    "ModelFolder",
    "ModelFolders",
    "choose_device",
    "choose_dtype",
    "content_hash",
    "import_torch",
    "import_transformers",
    "load_part",
    "load_weights",
    "merge",
    "resolve",
    "save_tokenizer",
]
