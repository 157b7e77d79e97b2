"""An OpenAI-compatible embedding endpoint: `POST /embeddings`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Unpack

import numpy as np
from numpy.typing import NDArray

from palate.engines.http import ClientParts, HttpClient, HttpRequest, HttpSettings, body_of
from palate.engines.http.replies import read_vectors
from palate.engines.http.request import NOT_SENT, NotSent
from palate.errors import EngineError

Vector = NDArray[np.float32]
log = logging.getLogger(__name__)
BATCH = 32
"""Texts in one request."""


class EmbeddingEndpoint:
    """Sends texts and gives their vectors; a text without a usable one is left out, and counted."""

    def __init__(self, settings: HttpSettings, **parts: Unpack[ClientParts]) -> None:
        self.settings = settings
        self.client = HttpClient(settings, noun="list of embeddings", **parts)
        self._width: int | None = None

    def embed(self, texts: Sequence[str]) -> Iterator[tuple[int, Vector | None]]:
        """Yield (position, vector or None) as they come; raises `EngineError` where none comes."""
        lacking, reasons = False, Counter[str]()
        starts = range(0, len(texts), BATCH)
        posts = (self._post(texts[first : first + BATCH]) for first in starts)
        with closing(self.client.ask(posts)) as outcomes:
            for position, outcome in outcomes:
                lacking |= outcome.failure == NOT_SENT
                vectors, first = outcome.value or (), starts[position]
                if outcome.value is None and outcome.failure != NOT_SENT:
                    reason = str(outcome.failure)
                    if outcome.outage or outcome.refusal is not None:
                        raise EngineError(
                            f"{self.settings.base_url}: no embedding for {BATCH} texts "
                            f"({reason}); what came before is kept"
                        )
                    vectors = [reason] * len(texts[first : first + BATCH])
                for k, vector in enumerate(vectors, first):
                    reason = vector if isinstance(vector, str) else self._misfit(vector)
                    reasons.update([reason] if reason else ())
                    yield k, None if reason or isinstance(vector, str) else vector
        for reason, n in reasons.items():
            log.warning("%s: %d texts are left out: %s", self.settings.base_url, n, reason)
        if lacking:
            raise NotSent(NOT_SENT)

    def _misfit(self, vector: Vector) -> str:
        self._width = self._width or len(vector)
        if len(vector) == self._width:
            return ""
        return f"embedding has {len(vector)} numbers, not {self._width}"

    def _post(self, texts: Sequence[str]) -> HttpRequest[list[Vector | str]]:
        body = {"model": self.settings.model, "input": list(texts), "encoding_format": "float"}
        return HttpRequest(
            "embeddings",
            body_of(body),
            partial(read_vectors, count=len(texts)),
            keeps=lambda vectors: not any(isinstance(vector, str) for vector in vectors),
        )
