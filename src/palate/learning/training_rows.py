"""The rows that every kind of training reads: one split, and no vote that is evaluated."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from palate.benchmarks import Dataset, LoadOptions, load_benchmark
from palate.errors import UsageError
from palate.seeding import shuffled


def rows_to_learn(
    data: str | Path | Dataset, split: str | None = None, options: LoadOptions | None = None
) -> Dataset:
    """Return what may be learnt from, as `Dataset.for_training` does, loaded where it is named."""
    if not isinstance(data, Dataset):
        data = load_benchmark(str(data), split="all", options=options)
    return data.for_training(split)


def left_out_users(
    users: Iterable[str], data: str, named: Collection[str], held_out_users: float, seed: int
) -> set[str]:
    """Return the users that are not trained on: those named, and a seeded share of all.

    Raises `UsageError` for a user who is not there, and for what is no share.
    """
    every = sorted(users)
    unknown = next((user for user in named if user not in every), None)
    if unknown is not None:
        raise UsageError(f"--leave-out {unknown}: no such user in {data}")
    if not 0 <= held_out_users < 1:
        raise UsageError(
            f"--held-out-users {held_out_users}: expected a share of the users, 0 or more, below 1"
        )
    return {*named, *shuffled(every, "unseen", seed)[: round(held_out_users * len(every))]}
