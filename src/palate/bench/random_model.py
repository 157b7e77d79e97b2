"""Models of usual shapes with random weights: speed depends on the shape alone."""

from __future__ import annotations

import threading
from typing import Any

from palate.engines import LocalModel
from palate.engines.local.read_mode import find_read_mode
from palate.engines.local.threads import FairLock
from palate.errors import SpecError
from palate.models import choose_device, choose_dtype, import_torch, import_transformers
from palate.records import Settings

PREFIX = "random:"
FIELDS = (
    "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "vocab_size",
)  # fmt: skip
SHAPES = {
    "0.1b": (576, 1536, 30, 9, 3, 49152),
    "1b": (2048, 8192, 16, 32, 8, 128256),
    "3b": (3072, 8192, 28, 24, 8, 128256),
    "8b": (4096, 14336, 32, 32, 8, 128256),
}
"""The shapes of SmolLM2-135M and of Llama 3.1 and 3.2."""
POSITIONS = 8192


class RandomModel(LocalModel):
    """A decoder without a tokenizer, made on the device it runs on."""

    def __init__(self, spec: str, settings: Settings) -> None:
        size = spec.removeprefix(PREFIX)
        if size not in SHAPES:
            raise SpecError(f"model {spec!r}: {PREFIX} is followed by one of {', '.join(SHAPES)}")
        torch, transformers = import_torch(), import_transformers()
        self.torch, self.settings, self.tokenizer = torch, settings, None
        self.reference: Any = spec
        self.device = choose_device(settings.device)
        self.dtype = choose_dtype(settings.dtype, self.device)
        self.budget, self.layers = settings.batch_tokens, 1
        self.turns, self.users, self._counting = FairLock(), 0, threading.Lock()
        shape: dict[str, Any] = dict(zip(FIELDS, SHAPES[size], strict=True))
        config = transformers.LlamaConfig(
            max_position_embeddings=POSITIONS, tie_word_embeddings=size != "8b", **shape
        )
        torch.manual_seed(settings.seed)
        with torch.device(self.device):
            self.model: Any = transformers.AutoModelForCausalLM.from_config(
                config, dtype=self.dtype
            ).eval()
        self.read_mode = find_read_mode(self, settings.attention)
