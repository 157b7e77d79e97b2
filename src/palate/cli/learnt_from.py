"""The rows that every kind of training reads: one split, and no vote that is evaluated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from palate.benchmarks import Dataset, LoadOptions, load_benchmark
from palate.cli.console import err
from palate.data import parse_columns
from palate.errors import UsageError
from palate.seeding import shuffled


def pairs_to_train(
    data: str, split: str | None, columns: list[str] | None, skip_bad_rows: bool
) -> Dataset:
    """Load what may be learnt from, and say which votes are left out because they are evaluated."""
    options = LoadOptions(columns=parse_columns(columns or []), skip_bad_rows=skip_bad_rows)
    pairs = load_benchmark(data, split="all", options=options).for_training(split)
    if pairs.history_left_out:
        said = (
            f"{pairs.history_left_out} votes left out: their users cast them in another split too"
        )
        err.print(f"{pairs.name}: {said}", style="yellow", markup=False)
    return pairs


def left_out_users(
    users: Iterable[str], data: str, named: Sequence[str] | None, unseen: float, seed: int
) -> set[str]:
    """Return the users that are not trained on: those named, and a seeded share of all."""
    every = sorted(users)
    stranger = next((user for user in named or () if user not in every), None)
    if stranger is not None:
        raise UsageError(f"--leave-out {stranger}: no such user in {data}")
    if not 0 <= unseen < 1:
        raise UsageError(f"--unseen {unseen}: expected a share of the users, 0 or more, below 1")
    return {*(named or ()), *shuffled(every, "unseen", seed)[: round(unseen * len(every))]}
