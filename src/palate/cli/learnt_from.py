"""The rows that every kind of training reads: one split, and no vote that is evaluated."""

from __future__ import annotations

from palate.benchmarks import LoadOptions, PairSet, load_benchmark
from palate.cli.console import err
from palate.data import parse_columns


def pairs_to_train(
    data: str, split: str | None, columns: list[str] | None, skip_bad_rows: bool
) -> PairSet:
    """Load what may be learnt from, and say which votes are left out because they are evaluated."""
    options = LoadOptions(columns=parse_columns(columns or []), skip_bad_rows=skip_bad_rows)
    pairs = load_benchmark(data, split="all", options=options).for_training(split)
    if pairs.history_left_out:
        said = (
            f"{pairs.history_left_out} votes left out: their users cast them in another split too"
        )
        err.print(f"{pairs.name}: {said}", style="yellow", markup=False)
    return pairs
