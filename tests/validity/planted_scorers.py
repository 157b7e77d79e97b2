"""Scorers of known quality on a planted world, and quality by hand."""

from __future__ import annotations

import numpy as np

from measures import Planted
from palate.answers import Sample, Samples
from palate.benchmarks import Dataset
from palate.records import PreferencePair, ScorerInfo, Scores
from palate.seeding import rng
from palate.uses import Downstream, DownstreamQuality, RowFigures

QUALITIES = {f"answer {k}": k / 40 for k in range(41)}


class Hazy:
    """Scores an answer by its true quality and noise of its own."""

    def __init__(self, name: str, noise: float) -> None:
        self.name, self.noise = name, noise
        self.info = ScorerInfo(fingerprint=name, exact=True)

    def score(self, slates):
        for k, slate in enumerate(slates):
            values = []
            for text in slate.candidates:
                stream = rng("hazy", self.name, slate.question[0].content, text)
                values.append(QUALITIES[text] + self.noise * float(stream.normal()))
            yield k, Scores(values=tuple(values))


def truth() -> Planted:
    """Return a measure of quality that knows it."""
    return Planted("truth", lambda question, text: QUALITIES[text])


def world(n_rows: int, seed: int = 0) -> tuple[Dataset, Samples]:
    stream = np.random.default_rng(seed)
    names = list(QUALITIES)
    rows, own = [], []
    for k in range(n_rows):
        worse, better = sorted(stream.choice(41, 2, replace=False).tolist())
        rows.append(
            PreferencePair(id=f"r{k}", user_id=f"u{k % 30}", text=f"Q{seed}.{k}?",
                           chosen=names[better], rejected=names[worse])
        )  # fmt: skip
        own.append(tuple(Sample(names[j]) for j in stream.choice(41, 8, replace=False)))
    pairs = Dataset("planted", tuple(rows))
    return pairs, Samples("p", tuple(p.id for p in rows), tuple(own))


def quality_of(values, benchmark="b", quality="q", users=(), questions=(), **more) -> Downstream:
    named = {"benchmark": benchmark, "policy": "p", "quality": quality, "surrogate": False}
    of = DownstreamQuality(**named, answers="best of 4", rated="the picks", k=4, n_samples=8)
    fields = {"kind": "best-of-n", "of": of, "samples": "s", "values": values, "rows": {}}
    return Downstream(**{**fields, "figures": RowFigures(users, questions), **more})
