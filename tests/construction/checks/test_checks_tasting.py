"""What the checks of texts say of real rows: figures that were counted in another way."""

from __future__ import annotations

from palate.benchmarks import load_benchmark
from palate.construction.checks.row_check import CheckOptions, check_rows
from palate.evaluation import Work

LEAKS = {
    "chosen": (
        "a1305-a1304", "a2072-a2071", "a2119-a2112", "a2119-a2120", "a2542-a2541", "a2571-a2557",
        "a2598-a2601", "a2598-a2613", "a2666-a2665", "a4090-a4081", "a4090-a4087",
    ),
    "rejected": ("a1417-a1421", "a2598-a2601", "a3928-a3870"),
    "question": ("a2462-a2396",),
}  # fmt: skip


def results_of(name):
    pairs = load_benchmark(str(name))
    results = {result.name: result for result in check_rows(pairs, CheckOptions(), Work.of())}
    return [row.id for row in pairs.rows], results


def named(ids, result):
    """Return the rows by what of them fails."""
    of_part = {}
    for name, detail in zip(ids, result.details, strict=True):
        for fault in detail.split("; ") if detail else ():
            of_part.setdefault(fault.partition(":")[0], []).append(name.partition("-")[2])
    return {part: sorted(rows) for part, rows in of_part.items()}


def test_tasting_has_no_fault_and_every_evidence_is_quoted():
    _, results = results_of("tasting")
    assert results["quote"].verbatim == (364, 364)
    for name in ("format", "quote", "parrot", "leak", "repeated"):
        assert results[name].n_checked == 96
        assert results[name].details == (None,) * 96
    assert results["later"].needs == "dates of questions and posts"


def test_fourteen_rows_of_real_authors_leak_and_none_has_a_bad_form(real_data):
    ids, results = results_of(real_data / "stackexchange_author.jsonl.gz")
    leaks = {part: sorted(rows) for part, rows in LEAKS.items()}
    assert named(ids, results["leak"]) == leaks
    assert sum(map(bool, results["leak"].details)) == 14
    assert not any(results["format"].details)


def test_four_narratives_of_real_askers_leak(real_data):
    ids, results = results_of(real_data / "stackexchange_accepted.jsonl.gz")
    leaks = named(ids, results["leak"])
    assert (list(leaks), len(leaks["narrative"])) == (["narrative"], 4)
    assert not any(results["format"].details)
