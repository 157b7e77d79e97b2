"""Time what reads many runs: `palate compare`, and the page of `palate report`.

    python tools/many_runs.py [--scorers 17] [--rows 3000]

Verdicts are drawn; each scorer is run under three contexts. Exits 1 where the comparison takes 10 s
of processor time or more, or the page has 3 MB or more.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "reports" / "page"))

from planted_runs import rows_of, save_grid, write_rows

from palate.comparison import compare
from palate.reports import comparison_tables
from palate.reports.page import report

MOST_SECONDS, MOST_BYTES = 10.0, 3_000_000


def main() -> int:
    """Measure, print and hold against the bars."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scorers", type=int, default=17)
    parser.add_argument("--rows", type=int, default=3000)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root, page = Path(folder) / "runs", Path(folder) / "page.html"
        rows = rows_of(args.rows, users=max(2, args.rows // 10), text="word " * 30)
        pairs = write_rows(Path(folder) / "mine.jsonl", rows)
        save_grid(root, pairs, [f"likelihood:pypi:model-{k}" for k in range(args.scorers)])
        started = time.process_time()
        comparison = compare(root)
        text = "".join(table.text() for table in comparison_tables(comparison))
        seconds = time.process_time() - started
        report(root, page, data=[str(Path(folder) / "mine.jsonl")])
        size, page_seconds = page.stat().st_size, time.process_time() - started - seconds
    sys.stdout.write(
        f"{len(comparison.runs)} runs of {args.rows:,} rows, {len(comparison.tests):,} tests\n"
        f"compare: {seconds:.1f} s (bar {MOST_SECONDS:.0f} s), {len(text):,} characters\n"
        f"page: {page_seconds:.1f} s, {size / 1e6:.2f} MB (bar {MOST_BYTES / 1e6:.0f} MB)\n"
    )
    return int(seconds >= MOST_SECONDS or size >= MOST_BYTES)


if __name__ == "__main__":
    sys.exit(main())
