"""Embeddings of texts: by a model in this process, or an endpoint (`POST /embeddings`)."""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from functools import cached_property, partial
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from palate.engines.http_client import ClientParts, HttpClient
from palate.engines.http_replies import read_vectors
from palate.engines.http_requests import (
    NOT_SENT,
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    NotSent,
    body_of,
)
from palate.engines.local_threads import FairLock, map_ordered
from palate.errors import EngineError
from palate.models import ModelFolder, choose_device, import_torch, resolve
from palate.models.loading import load_embedder
from palate.records import Settings
from palate.seeding import digest
from palate.specs import Reference

AT_ONCE = 256
"""Texts tokenised and computed before the first of them is given."""
REMEMBERED = 65_536
"""Texts whose embeddings are kept in memory."""
GUESSED = "no modules.json says how a text becomes a vector: its pooling is guessed"
Vector = NDArray[np.float32]
log = logging.getLogger(__name__)
BATCH = 32
"""Texts in one request."""
SEVERAL = 3
"""Texts of which no model that reads them gives one vector to all."""


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
        if not (self.folder.path / "modules.json").is_file():
            self.notes.append(f"{reference}: {GUESSED}")
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
        code = {"trust_remote_code": self.settings.trust_remote_code}
        where = self.folder.path
        model = load_embedder(self.reference, where, self.notes, device=self.device, **code)
        tokenizer = model.tokenizer
        pad = tokenizer.pad_token or tokenizer.eos_token or tokenizer.convert_ids_to_tokens(0)
        tokenizer.pad_token = pad  # asked for even where each text is read alone
        return model

    def embed(self, text: str) -> Embedding:
        """Return the embedding of one text."""
        return next(self.embed_all([text]))

    def embed_all(self, texts: Iterable[str]) -> Iterator[Embedding]:
        """Yield each text's embedding, in order; those of the latest `REMEMBERED` texts stay."""
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
            for window in inputs:
                on_device = {
                    name: value.to(self.device) if hasattr(value, "to") else value
                    for name, value in window.items()
                }
                vector = model(on_device)["sentence_embedding"][0][: model.truncate_dim]
                vectors.append(vector.double().cpu().numpy())
        mean = np.average(vectors, axis=0, weights=sizes)
        return Embedding(unit_length(mean), sum(sizes), len(inputs))

    def _windows(self, text: str) -> tuple[list[str], list[int]]:
        tokenizer, limit = self._model.tokenizer, self._model.max_seq_length
        plain = {"add_special_tokens": False, "verbose": False}
        spans = tokenizer(text, return_offsets_mapping=True, **plain)["offset_mapping"]
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


class EmbeddingEndpoint:
    """Sends texts and gives their vectors; a text without a usable one is left out, and counted."""

    def __init__(self, settings: HttpSettings, **parts: Unpack[ClientParts]) -> None:
        self.settings = settings
        self.client = HttpClient(settings, noun="list of embeddings", **parts)
        self._width: int | None = None

    def embed(self, texts: Sequence[str]) -> Iterator[tuple[int, Vector | None]]:
        """Yield (position, vector or None) as they come; raises `EngineError` where none comes."""
        lacking, reasons = False, Counter[str]()
        posts = (self._post(texts[first : first + BATCH]) for first in range(0, len(texts), BATCH))
        try:
            with closing(self.client.ask(posts)) as outcomes:
                for position, outcome in outcomes:
                    lacking |= outcome.failure == NOT_SENT
                    places = range(position * BATCH, len(texts))
                    for k, vector in zip(places, self._vectors(outcome), strict=False):
                        reasons.update([vector] if isinstance(vector, str) else ())
                        yield k, None if isinstance(vector, str) else vector
        finally:
            for reason, n in reasons.items():
                url = self.settings.base_url
                log.warning("%s: %d of %d texts are left out: %s", url, n, len(texts), reason)
        if lacking:
            raise NotSent(NOT_SENT)

    def _vectors(self, outcome: HttpOutcome[list[Vector | str]]) -> Sequence[Vector | str]:
        if outcome.value is not None or outcome.failure == NOT_SENT:
            return outcome.value or ()
        if outcome.outage or outcome.refusal is not None:
            problem = f"no embedding for {BATCH} texts ({outcome.failure})"
            raise EngineError(f"{self.settings.base_url}: {problem}; what came before is kept")
        return [str(outcome.failure)] * BATCH  # of no text is it known that it was read whole

    def _post(self, texts: Sequence[str]) -> HttpRequest[list[Vector | str]]:
        body = {"model": self.settings.model, "input": list(texts), "encoding_format": "float"}

        def read(reply: Any) -> list[Vector | str]:
            vectors = list(map(self._of_one_width, read_vectors(reply, len(texts))))
            several = {it if isinstance(it, str) else it.tobytes() for it in vectors}
            if len(several) == 1 and len(set(texts)) >= SEVERAL:
                return ["all texts have the same vector"] * len(texts)
            return vectors

        return HttpRequest(
            *("embeddings", body_of(body), read),
            keeps=lambda vectors: not any(isinstance(vector, str) for vector in vectors),
        )

    def _of_one_width(self, vector: Vector | str) -> Vector | str:
        self._width = self._width or (None if isinstance(vector, str) else len(vector))
        if isinstance(vector, str) or len(vector) == self._width:
            return vector
        return f"embedding has {len(vector)} numbers, not {self._width}"


def even_parts(length: int, room: int | None) -> list[tuple[int, int]]:
    """Return from where to where each part reaches if a text is cut to fit, as evenly as it can be.

    >>> even_parts(7, 3)
    [(0, 2), (2, 5), (5, 7)]
    """
    count = 1 if room is None else max(1, -(-length // room))
    cuts = np.linspace(0, length, count + 1).round().astype(int).tolist()
    return list(pairwise(cuts))
