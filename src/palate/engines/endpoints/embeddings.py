"""An OpenAI-compatible embedding endpoint: `POST /embeddings`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from palate.engines.http import ClientParts, HttpClient, HttpRequest, HttpSettings, body_of
from palate.engines.http.request import NOT_SENT, NotSent
from palate.errors import EngineError

BATCH = 32
"""Texts in one request."""


class EmbeddingEndpoint:
    """Sends texts and gives their vectors; a text without one ends the work."""

    def __init__(self, settings: HttpSettings, **parts: Unpack[ClientParts]) -> None:
        self.settings = settings
        self.client = HttpClient(settings, noun="list of embeddings", **parts)

    def embed(self, texts: Sequence[str]) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """Yield (position, vector) as they come; raises `EngineError` where one does not."""
        lacking = False
        starts = range(0, len(texts), BATCH)
        posts = (self._post(texts[first : first + BATCH]) for first in starts)
        with closing(self.client.ask(posts)) as outcomes:
            for position, outcome in outcomes:
                lacking |= outcome.failure == NOT_SENT
                if outcome.value is None and outcome.failure != NOT_SENT:
                    raise EngineError(
                        f"{self.settings.base_url}: no embedding for {BATCH} texts "
                        f"({outcome.failure}); what came before is kept"
                    )
                for k, vector in enumerate(outcome.value or ()):
                    yield starts[position] + k, vector
        if lacking:
            raise NotSent(NOT_SENT)

    def _post(self, texts: Sequence[str]) -> HttpRequest[list[NDArray[np.float32]]]:
        body = {"model": self.settings.model, "input": list(texts), "encoding_format": "float"}

        def read(said: Any) -> list[NDArray[np.float32]] | None:
            rows = sorted(said["data"], key=lambda row: int(row["index"]))
            if [int(row["index"]) for row in rows] != list(range(len(texts))):
                return None
            return [np.array(row["embedding"], np.float32) for row in rows]

        return HttpRequest("embeddings", body_of(body), read)
