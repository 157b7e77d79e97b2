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
        self.device = choose_device(settings.device)
        kind = self.device.split(":", maxsplit=1)[0]
        self.fingerprint = digest("embedder", self.folder.content, kind, 2)
        self._known: dict[str, Embedding] = {}

    @cached_property
    def _model(self) -> Any:
        import_torch()
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise UsageError("embedders need pip install 'palate[local]'") from error
        for pickle in sorted(self.folder.path.glob("*/pytorch_model.bin")):
            if not any(pickle.parent.glob("*.safetensors")):
                name = pickle.relative_to(self.folder.path)
                raise ModelError(
                    f"{self.reference}: {name} is a pickle, which palate does not load"
                )
        try:
            return SentenceTransformer(
                str(self.folder.path),
                device=choose_device(self.settings.device),
                trust_remote_code=self.settings.trust_remote_code,
                local_files_only=True,
                model_kwargs={"use_safetensors": True},
            ).float()
        except Exception as error:  # what a broken folder raises is anybody's guess
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
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
        windows: list[str] = []
        sizes: list[int] = []
        for i, j in zip(cuts[:-1], cuts[1:], strict=True):
            piece, size = text[spans[i][0] : spans[j - 1][1]], int(j - i)
            if size > 1 and self._length(piece) > room:  # a word cut in two can take more tokens
                inner, inner_sizes = self._windows(piece)
                windows, sizes = windows + inner, sizes + inner_sizes
            else:
                windows, sizes = [*windows, piece], [*sizes, size]
        return windows, sizes

    def _length(self, text: str) -> int:
        encoded = self._model.tokenizer(text, add_special_tokens=False, verbose=False)
        return len(encoded["input_ids"])


def unit_length(vector: NDArray[np.float64]) -> NDArray[np.float32]:
    """Scale a vector to length 1; a zero vector stays zero."""
    length = float(np.linalg.norm(vector))
    return (vector / length if length else vector).astype(np.float32)


_loaded: dict[tuple[str, str, Settings], Embedder] = {}


def load_embedder(reference: Reference, settings: Settings) -> Embedder:
    """Return the embedder, loaded once."""
    key = (str(reference), resolve(reference).content, settings)
    return _loaded.setdefault(key, Embedder(reference, settings))
