"""Ratings of samples: of what was written, once each, and of nothing else."""

from __future__ import annotations

import numpy as np
from quality_rows import row

from measures import Planted
from palate.answers import Sample, Samples
from palate.benchmarks import Dataset
from palate.evaluation import Work
from palate.quality import rate_samples
from palate.session import Session


def test_rows_that_nothing_was_written_for_are_neither_rated_nor_counted(tmp_path):
    names = ("q1", "q2", "q3")
    written = ((Sample("a b"), Sample("c")), (Sample(""), Sample("")), (Sample(""), Sample("d")))
    samples = Samples("tea", names, written, frozenset({1}))
    pairs = Dataset("tea", tuple(row(name=name) for name in names))
    measure = Planted("words", lambda question, text: min(len(text.split()) / 10, 1.0))
    rated = rate_samples(measure, samples, pairs, Work.of(Session(store=tmp_path)))
    np.testing.assert_array_equal(rated.values, [[0.2, 0.1], [np.nan, np.nan], [0.0, 0.1]])
    assert rated.reasons == {}
    assert samples.first(1).left_out == {1}
    assert sorted(measure.rated) == [("q1", "a b"), ("q1", "c"), ("q3", ""), ("q3", "d")]
