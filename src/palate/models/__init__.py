"""From references to weights on disk, and the set-up of torch."""

from palate.models.gguf import save_tokenizer
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
    "resolve",
    "save_tokenizer",
]
