"""An OpenAI-compatible embedding endpoint: `POST /embeddings`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from palate.engines.http import (
    ClientParts,
    HttpClient,
    HttpOutcome,
    HttpRequest,
    HttpSettings,
    body_of,
)
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
            raise EngineError(
                f"{self.settings.base_url}: no embedding for {BATCH} texts "
                f"({outcome.failure}); what came before is kept"
            )
        return [str(outcome.failure)] * BATCH  # of no text is it known that it was read whole

    def _post(self, texts: Sequence[str]) -> HttpRequest[list[Vector | str]]:
        body = {"model": self.settings.model, "input": list(texts), "encoding_format": "float"}

        def read(said: Any) -> list[Vector | str]:
            return list(map(self._of_one_width, read_vectors(said, len(texts))))

        return HttpRequest(
            *("embeddings", body_of(body), read),
            keeps=lambda vectors: not any(isinstance(vector, str) for vector in vectors),
        )

    def _of_one_width(self, vector: Vector | str) -> Vector | str:
        self._width = self._width or (None if isinstance(vector, str) else len(vector))
        if isinstance(vector, str) or len(vector) == self._width:
            return vector
        return f"embedding has {len(vector)} numbers, not {self._width}"
