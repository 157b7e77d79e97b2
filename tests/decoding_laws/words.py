"""Random language models over eight words, whose head is wider than their tokenizer."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from palate.engines import LocalModel
from palate.engines.local_model import find_read_mode
from palate.engines.local_threads import FairLock
from palate.models import TOKENS, import_torch, import_transformers
from palate.records import Settings

WORDS = (0, 1, 2, 4, 5, 6, 7, 8)
"""Ids of words; 3 is a hole among them, and the head has two ids beyond them."""
WIDTH = 11
END = 8
SPREAD = 0.7
"""Standard deviation of the weights: that of the logits is four times as much."""


class WordTokenizer:
    """Words that are their ids."""

    all_special_tokens, added_tokens_decoder = (), {}  # type: ignore[var-annotated]

    def __len__(self) -> int:
        return len(WORDS)

    def get_vocab(self) -> dict[str, int]:
        return {str(word): word for word in WORDS}

    def convert_tokens_to_ids(self, tokens: Sequence[str]) -> list[int]:
        return list(map(int, tokens))

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool = True) -> str:
        del skip_special_tokens
        return " ".join(map(str, ids))


class WordModel(LocalModel):
    """A decoder of two layers with large random weights, read as the engine reads any other."""

    def __init__(self, seed: int, ends: Sequence[int] = (END,)) -> None:
        torch, transformers = import_torch(), import_transformers()
        self.torch, self.tokenizer = torch, WordTokenizer()
        self.settings = Settings(seed=seed, dtype="float32", device="cpu")
        self.reference: Any = f"words {seed}"
        self.device, self.dtype = "cpu", torch.float32
        self.budget, self.layers = TOKENS, 1
        self.turns, self.users, self._counting = FairLock(), 0, threading.Lock()
        config = transformers.LlamaConfig(
            vocab_size=WIDTH,
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            max_position_embeddings=64,
            initializer_range=SPREAD,
            tie_word_embeddings=False,
            eos_token_id=list(ends),
        )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            made = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
        self.model: Any = made.eval()
        self.read_mode = find_read_mode(self, None)
