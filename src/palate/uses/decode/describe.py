"""Descriptions of guided answers, and their distance from the policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.answers import Samples
from palate.answers.policies import Sample
from palate.guidance.methods import Method
from palate.uses.decode.result import TextFacts
from palate.words import count_words, runs, split_words


def text_facts(samples: Samples, there: NDArray[np.bool_] | None = None) -> TextFacts:
    """Return what the answers look like."""
    answers = _answers(samples, there)
    return TextFacts(
        words=float(np.mean([count_words(answer.text) for answer in answers])),
        cut_off=float(np.mean([answer.cut_off for answer in answers])),
        empty=float(np.mean([not answer.text.strip() for answer in answers])),
        distinct_bigrams=_mean([distinct_bigrams(answer.text) for answer in answers]),
    )


def distinct_bigrams(text: str) -> float | None:
    """Return the share of an answer's runs of two words that are different; None without a run.

    >>> distinct_bigrams("tea and tea and tea"), distinct_bigrams("Tea.")
    (0.5, None)
    """
    pairs = runs(split_words(text.lower()), 2)
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
