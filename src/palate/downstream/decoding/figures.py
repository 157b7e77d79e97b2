"""What guidance changes: figures over rows or mirrored couples, paired with what has no guide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palate.downstream.decoding.methods import Method
from palate.downstream.decoding.result import TextFacts
from palate.downstream.sampling import Samples
from palate.downstream.sampling.policies import Sample
from palate.metrics import Estimate
from palate.metrics.estimates import UNIT
from palate.metrics.selection.curves import UNBOUNDED_BY
from palate.metrics.selection.figures import level, moved_by
from palate.metrics.selection.units import Units

Doubles = NDArray[np.float64]


@dataclass(frozen=True)
class RowFigures:
    """Whose the rows are, and what they ask."""

    users: Sequence[str]
    questions: Sequence[str]
    seed: int = 0

    def mean(self, values: Doubles, mirrors: Sequence[int] | None = None) -> Estimate:
        """Return the mean of a quality over rows, or over couples."""
        units = self._units(values, mirrors)
        return level(units.values(values), units.clusters, UNIT)

    def gain(
        self, values: Doubles, base: Doubles, mirrors: Sequence[int] | None = None
    ) -> Estimate:
        """Return how far a quality is above another, paired."""
        return self._moved(values - base, 1.0, mirrors)

    def reward_gain(self, values: Doubles, base: Doubles) -> Estimate:
        """Return how far rewards, which have no bounds, are above others."""
        moved = values - base
        known = moved[~np.isnan(moved)]
        largest = float(np.abs(known).max()) if known.size else 0.0
        return self._moved(moved, UNBOUNDED_BY * max(1.0, largest), None)

    def _moved(self, moved: Doubles, width: float, mirrors: Sequence[int] | None) -> Estimate:
        units = self._units(moved, mirrors)
        values = units.values(moved)
        return moved_by(values, units.clusters, width, self.seed) if values.size else Estimate()

    def _units(self, values: Doubles, mirrors: Sequence[int] | None) -> Units:
        return Units.of(self.users, self.questions, ~np.isnan(values), mirrors)


def text_facts(samples: Samples, there: NDArray[np.bool_] | None = None) -> TextFacts:
    """Return what the answers look like."""
    answers = _answers(samples, there)
    return TextFacts(
        words=float(np.mean([len(answer.text.split()) for answer in answers])),
        cut_off=float(np.mean([answer.cut_off for answer in answers])),
        empty=float(np.mean([not answer.text.strip() for answer in answers])),
        distinct_bigrams=_mean([distinct_bigrams(answer.text) for answer in answers]),
    )


def distinct_bigrams(text: str) -> float | None:
    """Return the share of an answer's pairs of words that are different; None without a pair.

    >>> distinct_bigrams("tea and tea and tea"), distinct_bigrams("Tea.")
    (0.5, None)
    """
    words = text.lower().split()
    pairs = list(zip(words, words[1:], strict=False))
    return len(set(pairs)) / len(pairs) if pairs else None


def divergences(
    method: Method, samples: Samples, there: NDArray[np.bool_]
) -> tuple[float | None, float | None, dict[str, float]]:
    """Return mean divergence, its bound, and the mean tokens by model."""
    known = [it.guidance for it in _answers(samples, there) if it.guidance is not None]
    tokens = {
        name: float(np.mean([guidance.tokens[name] for guidance in known]))
        for name in ("policy", "guide")
    }
    return (
        _mean([guidance.divergence for guidance in known]),
        _mean([method.bound(guidance.written) for guidance in known]),
        tokens,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


def _answers(samples: Samples, there: NDArray[np.bool_] | None) -> list[Sample]:
    return [
        answer
        for k, of_row in enumerate(samples.of_row)
        if there is None or there[k]
        for answer in of_row
    ]
