"""Scores of texts that were just written: one call, nothing kept."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from palate.records import Scorer, Scores, Slate

ScoreOrReason = float | str


def score_texts(
    scorer: Scorer, slates: Sequence[Slate], texts: Sequence[Iterable[str]]
) -> list[dict[str, ScoreOrReason]]:
    """Return the float32 score of each text under its slate, or why it has none.

    The texts of one slate are candidates of one call, each once; blank ones are left out. What the
    scorer raises passes.

    >>> from palate.records import Message, Settings
    >>> from palate.scorers import build_scorer
    >>> from palate.session import default_session
    >>> longest = build_scorer("longest", default_session(), Settings())
    >>> slate = Slate(question=(Message(role="user", content="Tea?"),), candidates=())
    >>> score_texts(longest, [slate], [["Yes, please.", " ", "Yes, please."]])
    [{'Yes, please.': 12.0}]
    """
    by_slate = [tuple(dict.fromkeys(text for text in of if text.strip())) for of in texts]
    places = [k for k, of in enumerate(by_slate) if of]
    scored: list[dict[str, ScoreOrReason]] = [{} for _ in slates]
    if not places:
        return scored
    wide = [slates[k].replace(candidates=by_slate[k]) for k in places]
    for at, scores in scorer.score(wide):
        scored[places[at]] = by_text(scores, by_slate[places[at]])
    return scored


def by_text(scores: Scores, texts: Sequence[str]) -> dict[str, ScoreOrReason]:
    """Return the float32 score of each text, or why it has none.

    >>> by_text(Scores(values=(0.5, None), reasons=(None, "too long")), ["Tea.", "Tea. Tea."])
    {'Tea.': 0.5, 'Tea. Tea.': 'too long'}
    """
    return {
        text: _read(value, scores.reason(n))
        for n, (text, value) in enumerate(zip(texts, scores.values, strict=True))
    }


def _read(value: float | None, reason: str | None) -> ScoreOrReason:
    if value is None:
        return reason or "no score"
    single = float(np.float32(value))
    return single if np.isfinite(single) else "not a finite number"
