"""Where vectors come from: one class per kind of model behind one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from palate.embeddings.items import Item
from palate.engines import Embedder, LocalModel, TokenSpan
from palate.engines.endpoints.embeddings import EmbeddingEndpoint
from palate.errors import EngineError
from palate.prompts import as_text
from palate.records import Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference

Vector = NDArray[np.float32]


class VectorSource(Protocol):
    """Turns items into vectors of one width."""

    meaning: str
    """Hash of what a vector is: model content and what of it is taken."""
    fingerprint: str
    """Hash of all that a vector depends on beside the item: its meaning, and the precision."""
    exact: bool
    """True where a vector does not depend on what is computed with it."""
    stored: bool
    """True where vectors are worth keeping on disk."""

    @property
    def width(self) -> int:
        """Numbers of a vector."""

    lacking: str
    """Why an item has no vector."""

    def read(self, item: Item) -> tuple[object, ...]:
        """Return what of an item a vector depends on."""

    def prompt(self, item: Item) -> Item:
        """Return the item whose vector stands for this one's question."""

    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield (position, vector) as they come; None for what is `lacking`."""


class OfResponse:
    """Reads the response alone, so that a question stands for itself as if it were one."""

    lacking = "no embedding"

    def read(self, item: Item) -> tuple[object, ...]:
        """Read the response and nothing else."""
        return (item.response,)

    def prompt(self, item: Item) -> Item:
        """Embed the question as if it were a response."""
        return Item((), as_text(item.question))


class Sentences(OfResponse):
    """A sentence embedder on the response alone; long texts are averaged over windows."""

    stored = exact = True

    def __init__(self, reference: Reference, session: Session, settings: Settings) -> None:
        self.embedder: Embedder = session.embedder(reference, settings)
        self.meaning = digest("sentences", self.embedder.folder.content)
        self.fingerprint = digest("sentences", self.embedder.fingerprint)
        self.notes = self.embedder.notes

    @cached_property
    def width(self) -> int:
        """Numbers of a vector."""
        return len(self.embedder.embed("width").vector)

    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield vectors of length 1."""
        found = self.embedder.embed_all(item.response for item in items)
        for k, embedding in enumerate(found):
            yield k, embedding.vector


class HiddenStates:
    """A causal model's last hidden state at the last token of the closed conversation."""

    stored, exact, lacking = True, False, "too long"

    def __init__(self, reference: Reference, session: Session, settings: Settings) -> None:
        self.session, self.reader = session, session.reader(reference, settings)
        content, *computed = self.reader.weights
        self.meaning = digest("hidden", content, 1, *self.reader.template_details.values())
        self.fingerprint = digest(self.meaning, *computed)

    @property
    def notes(self) -> tuple[str, ...]:
        """What loading the model gave rise to."""
        return (*self.reader.notes, *self.session.of_loading(self.reader, "causal")[1:])

    @property
    def model(self) -> LocalModel:
        """The loaded model; do not keep it."""
        return self.session.model_of(self.reader, "causal")

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return int(self.reader.config.get_text_config().hidden_size)

    def read(self, item: Item) -> tuple[object, ...]:
        """Read question and response, as the model's template writes them."""
        return ([(m.role, m.content) for m in item.question], item.response)

    def prompt(self, item: Item) -> Item:
        """Take the state after an empty response."""
        return Item(item.question, "")

    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield hidden states; conversations that begin alike are read together."""
        window = self.reader.window or float("inf")
        tokens = [self.reader.template.conversation(i.question, i.response) for i in items]
        fits = [k for k, ids in enumerate(tokens) if len(ids) <= window]
        yield from ((k, None) for k, ids in enumerate(tokens) if len(ids) > window)
        groups = ([TokenSpan(tokens[k], len(tokens[k]) - 1, len(tokens[k]))] for k in fits)
        for n, found in self.model.hidden(groups):
            yield fits[n], found[0][0].numpy()


class Endpoint(OfResponse):
    """An OpenAI-compatible embedding endpoint, on the response alone."""

    stored = exact = True

    def __init__(self, endpoint: EmbeddingEndpoint) -> None:
        self.endpoint = endpoint
        self.meaning = digest("endpoint", endpoint.settings.base_url, endpoint.settings.model)
        self.fingerprint = self.meaning

    @cached_property
    def width(self) -> int:
        """Numbers of a vector, asked of the endpoint."""
        ((_, vector),) = self.endpoint.embed(["width"])
        if vector is None:
            raise EngineError(f"{self.endpoint.settings.base_url}: a plain word has no embedding")
        return len(vector)

    def vectors(self, items: Sequence[Item]) -> Iterator[tuple[int, Vector | None]]:
        """Yield what the endpoint gives."""
        yield from self.endpoint.embed([item.response for item in items])
