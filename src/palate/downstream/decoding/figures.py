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
    distinct = [share for one in answers if (share := distinct_bigrams(one.text)) is not None]
    return TextFacts(
        words=float(np.mean([len(one.text.split()) for one in answers])),
        cut_off=float(np.mean([one.cut_off for one in answers])),
        empty=float(np.mean([not one.text.strip() for one in answers])),
        distinct_bigrams=float(np.mean(distinct)) if distinct else None,
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
    known = [one.guidance for one in _answers(samples, there) if one.guidance is not None]
    estimates = [each.divergence for each in known if each.divergence is not None]
    bounds = [bound for each in known if (bound := method.bound(each.written)) is not None]
    tokens = {
        name: float(np.mean([each.tokens[name] for each in known])) for name in ("policy", "guide")
    }
    return (
        float(np.mean(estimates)) if estimates else None,
        float(np.mean(bounds)) if bounds else None,
        tokens,
    )


def _answers(samples: Samples, there: NDArray[np.bool_] | None) -> list[Sample]:
    return [
        one
        for k, of_row in enumerate(samples.of_row)
        if there is None or there[k]
        for one in of_row
    ]
