"""A transformers model and its tokenizer, loaded."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from palate.engines.local.rope import Sides, find_sides
from palate.engines.local.threads import FairLock
from palate.engines.text.chat_template import ids_of
from palate.engines.text.marks import decoded
from palate.engines.text.reader import Reader, window_of
from palate.models import choose_device, choose_dtype, import_torch, load_weights
from palate.records import Settings
from palate.specs import Reference

LOGIT_ROWS = 128
"""Rows of logits held at a time: a vocabulary is wide."""


class ReadMode(NamedTuple):
    """How sequences are read, and why not as a tree where they are not."""

    tree: bool
    why: str = ""
    reach: int | None = None
    """Sequences longer than this go the other way: a layer sees no further."""
    alone: bool = False
    """Whether what a sequence gets depends on the padding beside it."""

    def __str__(self) -> str:
        if self.alone:
            return f"batches of one ({self.why})"
        if not self.tree:
            return f"padded batches ({self.why})"
        limit = f" up to {self.reach} tokens" if self.reach else ""
        return f"shared prefixes{limit}"


class LoadedModel:
    """A model in this process, its tokenizer, and how it is read."""

    sides = Sides()
    """Which lengths share their rotary factors."""

    def __init__(
        self,
        reference: Reference,
        head: str,
        settings: Settings,
        *,
        reader: Reader | None = None,
        turns: FairLock | None = None,
    ) -> None:
        torch = import_torch()
        reader = reader or Reader(reference, settings)
        self.folder = reader.resolved
        self.reference, self.settings, self.torch = reference, settings, torch
        self.turns, self.users, self._counting = turns or FairLock(), 0, threading.Lock()
        self.device = choose_device(settings.device)
        self.dtype = choose_dtype(settings.dtype, self.device)
        self.budget = settings.batch_tokens
        options: dict[str, Any] = {"trust_remote_code": settings.trust_remote_code}
        if settings.attention not in (None, "tree"):
            options["attn_implementation"] = settings.attention
        self.tokenizer = reader.tokenizer
        self.notes: list[str] = []
        options["dtype"], adapter = self.dtype, self.folder.adapter
        self.model = load_weights(reference, head, self.folder.path, self.notes, adapter, **options)
        reader.complete(self.model.config.get_text_config())
        if head == "causal" and self.tokenizer is not None and self.ends != reader.ends:
            self.model.generation_config.eos_token_id = sorted(reader.ends)
        self.sides = find_sides(self.model, torch)
        self.model.to(self.device).eval()
        self.read_mode, self.layers = ReadMode(False, "not asked yet"), 1

    @property
    def window(self) -> int | None:
        """Tokens the model can read, or None if it declares no limit."""
        embeddings = getattr(self.model.base_model, "embeddings", None)
        return window_of(self.model.config.get_text_config(), self.tokenizer, embeddings)

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep the model in memory meanwhile, whatever else is loaded."""
        with self._counting:
            self.users += 1
        try:
            yield
        finally:
            with self._counting:
                self.users -= 1

    @property
    def ends(self) -> frozenset[int]:
        """The ids that end a reply."""
        return ids_of(self.model.generation_config.eos_token_id)

    def text(self, ids: Sequence[int]) -> str:
        """Return the text of tokens; none for a model without a tokenizer, as benches make it."""
        return "" if self.tokenizer is None else decoded(self.tokenizer, ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the weights."""
        return sum(each.numel() * each.element_size() for each in self.model.parameters())

    def memory(self, longest: int, side_by_side: int = 1) -> int:
        """Return the bytes beyond the model that reading may take, however much is read.

        Activations of the tokens at a time; per worker the logits in hand, and the keys and values
        of one sequence of `longest` tokens, which are kept where a slate is cut.
        """
        config = self.model.config.get_text_config()
        heads = config.num_attention_heads
        width = getattr(config, "head_dim", None) or config.hidden_size // heads
        groups = getattr(config, "num_key_value_heads", None) or heads
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        values = 8 * config.hidden_size + 4 * inner + 3 * (heads + 2 * groups) * width
        token = values * self.dtype.itemsize + 3 * config.hidden_size * 4  # norms are in float32
        kept = 2 * config.num_hidden_layers * groups * width * self.dtype.itemsize
        logits = LOGIT_ROWS * config.vocab_size * (self.dtype.itemsize + 8)
        return int(self.budget * token + side_by_side * (logits + longest * kept))
