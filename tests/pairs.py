"""Pairs by the columns of the row contract, without its checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from palate.answers import Samples, SampleScores, score_samples
from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.evaluation import ContextRows, Work, make_rows
from palate.records import Gold, PreferencePair, Settings
from palate.scorers import build_scorer
from palate.session import Session, default_session

GOLD = {
    "rubric_aspects": "aspects", "narrative": "narrative", "reference": "reference",
    "rating_scale": "rating_scale", "attribution": "attribution", "source_url": "source_url",
}  # fmt: skip


def pair_of(**fields: Any) -> PreferencePair:
    """Return the pair; gold stands beside the other fields, as in a row."""
    gold = {GOLD[name]: fields.pop(name) for name in GOLD if name in fields}
    gold["ratings"] = fields.pop("chosen_rating", None), fields.pop("rejected_rating", None)
    return PreferencePair(**fields, gold=Gold(**gold))


def rows_of(
    pairs: Dataset | Iterable[Any], context: Any = "none", seed: int = 0, **more: Any
) -> ContextRows:
    """Return rows of a dataset, or of these pairs, under a context or what its spec names."""
    data = pairs if isinstance(pairs, Dataset) else Dataset("made", tuple(pairs))
    return make_rows(data, build_context(context, default_session()), seed=seed, **more)


def register(monkeypatch: Any, **scorers: Any) -> None:
    """Let these names be the specs of these objects wherever best-of-n builds scorers."""
    register_all(monkeypatch, scorers)


def register_all(monkeypatch: Any, scorers: Mapping[str, Any]) -> None:
    """Let names be the specs of objects wherever work and files of members build scorers."""

    def build(text: Any, session: Session, settings: Settings) -> Any:
        known = isinstance(text, str) and text in scorers
        return scorers[text] if known else build_scorer(text, session, settings)

    for place in ("evaluation.work", "scorers.panel"):
        monkeypatch.setattr(f"palate.{place}.build_scorer", build)


def scored(
    scorer: Any,
    samples: Samples,
    pairs: Dataset,
    context: str = "none",
    progress: Any = None,
    **work: Any,
) -> SampleScores:
    """Return the scores of samples by one scorer, in memory unless `root` says where."""
    return score_samples(scorer, samples, pairs, context, Work.of(**work), progress)
