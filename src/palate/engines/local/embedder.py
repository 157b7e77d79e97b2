"""Sentence embeddings of texts of any length."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.engines.local.threads import FairLock, map_ordered
from palate.engines.text.reader import even_parts
from palate.models import ModelFolder, choose_device, import_torch, resolve
from palate.models.loading import load_embedder
from palate.records import Settings
from palate.seeding import digest
from palate.specs import Reference

AT_ONCE = 256
"""Texts tokenised and computed before the first of them is given."""
REMEMBERED = 65_536
"""Texts whose embeddings are kept in memory."""


class Embedding(NamedTuple):
    """A vector and the number of tokens it stands for."""

    vector: NDArray[np.float32]
    tokens: int
    windows: int


class Embedder:
    """A sentence-transformers model; a long text is split into windows, averaged by token count.

    Each text is computed by itself, so its embedding depends on nothing else.
    """

    def __init__(
        self,
        reference: Reference,
        settings: Settings,
        *,
        resolved: ModelFolder | None = None,
        turns: FairLock | None = None,
    ) -> None:
        self.reference, self.settings = reference, settings
        self.folder = resolved or resolve(reference, code=settings.trust_remote_code)
        self._turns, self.notes = turns or FairLock(), list(self.folder.notes)
        self.device = choose_device(settings.device)
        kind = self.device.split(":", maxsplit=1)[0]
        more = ("around",) if _writes_around(self.folder.path) else ()
        self.fingerprint = digest("embedder", self.folder.content, kind, 3, *more)
        self._known: dict[str, Embedding] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without what is loaded."""
        return Embedder, (self.reference, self.settings)

    @cached_property
    def _model(self) -> Any:
        model = load_embedder(
            self.reference,
            self.folder.path,
            self.notes,
            device=choose_device(self.settings.device),
            trust_remote_code=self.settings.trust_remote_code,
        )
        tokenizer = model.tokenizer
        # Asked for even where each text is read alone, and nothing is padded.
        tokenizer.pad_token = (
            tokenizer.pad_token or tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
        )
        return model

    def embed(self, text: str) -> Embedding:
        """Return the embedding of one text."""
        return next(self.embed_all([text]))

    def embed_all(self, texts: Iterable[str]) -> Iterator[Embedding]:
        """Yield the embedding of each text, in order; on a CPU several are computed side by side.

        Each is remembered while the latest `REMEMBERED` texts are.
        """
        rest = iter(texts)
        while some := list(islice(rest, AT_ONCE)):
            with self._lock:
                vectors = {text: self._known[text] for text in some if text in self._known}
            new = [text for text in dict.fromkeys(some) if text not in vectors]
            # On one thread a single text too: on more its sums would round otherwise.
            jobs = ((text, self._job(text)) for text in new)
            vectors |= dict(map_ordered(import_torch(), self.device, jobs, self._turns))
            with self._lock:
                self._known |= {text: vectors[text] for text in new}
                while len(self._known) > REMEMBERED:
                    del self._known[next(iter(self._known))]
            yield from (vectors[text] for text in some)

    def _job(self, text: str) -> Callable[[], Embedding]:
        # Tokenised here, in turn: tokenizers are not safe between threads.
        with self._turns.of():
            windows, sizes = self._windows(text)
            inputs = [self._inputs(window) for window in windows]
        return partial(self._forward, inputs, sizes)

    def _inputs(self, text: str) -> dict[str, Any]:
        prompt = self._model.prompts.get(self._model.default_prompt_name or "")
        inputs: dict[str, Any] = self._model.preprocess([text], prompt=prompt or None)
        return inputs

    @cached_property
    def _around(self) -> int:
        """Tokens that stand around each text: special ones, a prompt, the turn of a template."""
        word = "a"
        ids = self._inputs(word)["input_ids"][0]
        least: int = self._model.tokenizer.num_special_tokens_to_add()
        return max(least, len(ids) - self._length(word))

    def _forward(self, inputs: Sequence[dict[str, Any]], sizes: Sequence[int]) -> Embedding:
        torch, model = import_torch(), self._model
        vectors = []
        with torch.inference_mode():
            for one in inputs:
                there = {
                    name: value.to(self.device) if hasattr(value, "to") else value
                    for name, value in one.items()
                }
                vector = model(there)["sentence_embedding"][0][: model.truncate_dim]
                vectors.append(vector.double().cpu().numpy())
        mean = np.average(vectors, axis=0, weights=sizes)
        return Embedding(unit_length(mean), sum(sizes), len(inputs))

    def _windows(self, text: str) -> tuple[list[str], list[int]]:
        tokenizer, limit = self._model.tokenizer, self._model.max_seq_length
        encoded = tokenizer(
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        spans = encoded["offset_mapping"]
        room = max(1, limit - self._around) if limit else len(spans)
        if len(spans) <= room:
            return [text], [max(1, len(spans))]
        windows: list[str] = []
        sizes: list[int] = []
        for i, j in even_parts(len(spans), room):
            piece, size = text[spans[i][0] : spans[j - 1][1]], j - i
            if size > 1 and self._length(piece) > room:  # a word cut in two can take more tokens
                inner, inner_sizes = self._windows(piece)
                windows, sizes = windows + inner, sizes + inner_sizes
            else:
                windows, sizes = [*windows, piece], [*sizes, size]
        return windows, sizes

    def _length(self, text: str) -> int:
        encoded = self._model.tokenizer(text, add_special_tokens=False, verbose=False)
        return len(encoded["input_ids"])


def _writes_around(folder: Path) -> bool:
    # Whose long texts were once cut without room for what stands around them.
    prompts, tokenizers = "config_sentence_transformers.json", "tokenizer_config.json"
    return (
        any(folder.rglob("chat_template.jinja"))
        or any(_field(file, "chat_template") for file in folder.rglob(tokenizers))
        or bool(_field(folder / prompts, "default_prompt_name"))
    )


def _field(file: Path, name: str) -> object:
    try:
        return json.loads(file.read_text(encoding="utf-8")).get(name)
    except (OSError, ValueError):
        return None


def unit_length(vector: NDArray[np.float64]) -> NDArray[np.float32]:
    """Scale a vector to length 1; a zero vector stays zero."""
    length = float(np.linalg.norm(vector))
    return (vector / length if length else vector).astype(np.float32)
