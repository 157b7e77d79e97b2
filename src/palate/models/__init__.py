"""From references to weights on disk, and the set-up of torch."""

from palate.models.gguf import save_tokenizer
from palate.models.loading import fill, load_part, load_weights, merge
from palate.models.resolve import ModelFolder, ModelFolders, cached_snapshot, content_hash, resolve
from palate.models.runtime import (
    TOKENS,
    choose_device,
    choose_dtype,
    choose_tokens,
    import_torch,
    import_transformers,
)
