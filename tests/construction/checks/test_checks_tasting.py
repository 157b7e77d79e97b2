"""The checks of texts have nothing to say of the bundled rows."""

from __future__ import annotations

from palate.benchmarks import load_benchmark
from palate.construction.checks.row_check import CheckOptions, check_rows
from palate.evaluation import Work


def test_tasting_has_no_fault_and_every_evidence_is_quoted():
    rows = check_rows(load_benchmark("tasting"), CheckOptions(), Work.of())
    results = {result.name: result for result in rows}
    assert results["quote"].verbatim == (364, 364)
    for name in ("format", "quote", "parrot", "leak", "repeated"):
        assert results[name].n_checked == 96
        assert results[name].details == (None,) * 96
    assert results["later"].needs == "dates of questions and posts"
