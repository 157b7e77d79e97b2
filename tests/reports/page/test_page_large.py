"""A page of many runs opens and sorts soon."""

import pytest
from opened_page import opened
from planted_runs import rows_of, save_grid, write_rows

from palate.reports.page import report

pytest.importorskip("matplotlib")


def test_fifty_runs_of_three_thousand_rows(browser, tmp_path):
    pairs = write_rows(tmp_path / "mine.jsonl", rows_of(3000, users=300, text="word " * 30))
    save_grid(tmp_path / "runs", pairs, [f"likelihood:pypi:model-{k}" for k in range(17)])
    file = tmp_path / "page.html"
    report(tmp_path / "runs", file, data=[str(tmp_path / "mine.jsonl")], texts=True)
    assert file.stat().st_size < 4_000_000
    times = []
    for _ in range(3):
        with opened(browser, file, 1440) as page:
            page.evaluate("document.querySelector('#scorers th:nth-child(4)').click()")
            times.append(page.evaluate("performance.now()"))
            assert page.locator("#scorers th[aria-sort]").count() == 1
    assert min(times) < 1000, "milliseconds from opening to sorted"
