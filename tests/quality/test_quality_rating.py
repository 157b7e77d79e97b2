"""Ratings of samples: of what was written, once each, and of nothing else."""

from __future__ import annotations

import numpy as np
from quality_rows import row

from palate.answers import Sample, Samples
from palate.benchmarks import Dataset
from palate.evaluation import Work
from palate.quality import QualityScore, rate_samples
from palate.session import Session


class Words:
    """A measure that counts words, and remembers what it was given."""

    spec, fingerprint, surrogate = "words", "words", False

    def __init__(self):
        self.given = []

    def check(self, rows):
        pass

    def rate(self, items):
        self.given += [(item.question.id, item.response) for item in items]
        for k, item in enumerate(items):
            yield k, QualityScore(value=min(len(item.response.split()) / 10, 1.0))


def test_rows_that_nothing_was_written_for_are_neither_rated_nor_counted(tmp_path):
    names = ("q1", "q2", "q3")
    written = ((Sample("a b"), Sample("c")), (Sample(""), Sample("")), (Sample(""), Sample("d")))
    samples = Samples("tea", names, written, frozenset({1}))
    pairs = Dataset("tea", tuple(row(name=name) for name in names))
    measure = Words()
    rated = rate_samples(measure, samples, pairs, Work.of(Session(store=tmp_path)))
    np.testing.assert_array_equal(rated.values, [[0.2, 0.1], [np.nan, np.nan], [0.0, 0.1]])
    assert rated.reasons == {}
    assert samples.first(1).left_out == {1}
    assert sorted(measure.given) == [("q1", "a b"), ("q1", "c"), ("q3", ""), ("q3", "d")]
