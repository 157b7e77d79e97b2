"""Sentence embeddings of texts of any length."""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.errors import ModelError, UsageError
from palate.models import choose_device, import_torch, resolve
from palate.records import Settings
from palate.seeding import digest
from palate.specs import Reference


class Embedding(NamedTuple):
    """A vector and the number of tokens it stands for."""

    vector: NDArray[np.float32]
    tokens: int
    windows: int


class Embedder:
    """A sentence-transformers model; a long text is split into windows, averaged by token count.

    Each text is computed by itself, so its embedding depends on nothing else.
    """

    def __init__(self, reference: Reference, settings: Settings) -> None:
        self.reference, self.settings = reference, settings
        self.folder = resolve(reference)
        self.fingerprint = digest("embedder", self.folder.content, settings.device, 1)
        self._known: dict[str, Embedding] = {}

    @cached_property
    def _model(self) -> Any:
        import_torch()
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise UsageError("embedders need pip install 'palate[local]'") from error
        try:
            return SentenceTransformer(
                str(self.folder.path),
                device=choose_device(self.settings.device),
                trust_remote_code=self.settings.trust_remote_code,
                local_files_only=True,
            ).float()
        except (ValueError, OSError, KeyError) as error:
            reason = str(error).strip().splitlines()[0]
            raise ModelError(f"{self.reference}: cannot be loaded ({reason})") from error

    def embed(self, text: str) -> Embedding:
        """Return the embedding of one text, remembered."""
        if text not in self._known:
            self._known[text] = self._embed(text)
        return self._known[text]

    def _embed(self, text: str) -> Embedding:
        windows, sizes = self._windows(text)
        vectors = self._model.encode(
            windows, batch_size=16, show_progress_bar=False, convert_to_numpy=True
        )
        mean = np.average(vectors.astype(np.float64), axis=0, weights=sizes)
        return Embedding(unit_length(mean), sum(sizes), len(windows))

    def _windows(self, text: str) -> tuple[list[str], list[int]]:
        tokenizer, limit = self._model.tokenizer, self._model.max_seq_length
        encoded = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        spans = encoded["offset_mapping"]
        room = max(1, (limit or len(spans) + 2) - tokenizer.num_special_tokens_to_add())
        if len(spans) <= room:
            return [text], [max(1, len(spans))]
        count = -(-len(spans) // room)
        cuts = np.linspace(0, len(spans), count + 1).round().astype(int)
        pieces = [spans[i:j] for i, j in zip(cuts[:-1], cuts[1:], strict=True)]
        return [text[p[0][0] : p[-1][1]] for p in pieces], [len(p) for p in pieces]


def unit_length(vector: NDArray[np.float64]) -> NDArray[np.float32]:
    """Scale a vector to length 1; a zero vector stays zero."""
    length = float(np.linalg.norm(vector))
    return (vector / length if length else vector).astype(np.float32)


_loaded: dict[tuple[str, Settings], Embedder] = {}


def load_embedder(reference: Reference, settings: Settings) -> Embedder:
    """Return the embedder, loaded once."""
    return _loaded.setdefault((str(reference), settings), Embedder(reference, settings))
