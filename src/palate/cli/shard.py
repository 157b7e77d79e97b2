"""Lines that a shard prints when it ends, and the last command of what shards left to it."""

from __future__ import annotations

from collections import Counter

from palate.cli.console import err
from palate.errors import EndpointError
from palate.evaluation import Work
from palate.execution import SHARDS


def say_what_shards_did(work: Work) -> None:
    """Print what a shard holds of each cell; of a whole work, how much was left to it.

    Raises `EndpointError` where some rows of a shard were not answered.
    """
    if work.shard is None:
        if work.root is not None and (work.root / SHARDS).is_dir():
            _say("shards", sum(work.counts.values(), Counter()))
        return
    for folder, done in work.counts.items():
        _say(f"{folder}: {done['batches']:,} of {done['of_batches']:,} batches", done)
    if lost := sum(done["outages"] for done in work.counts.values()):
        raise EndpointError(f"{lost:,} rows were not answered; run the same command again")
    err.print("once all shards are done, the same command without --shard writes the runs")


def _say(what: str, done: Counter[str]) -> None:
    requests = f"{done['computed']:,} requests computed here, {done['recalled']:,} recalled"
    err.print(f"{what}: {requests}", highlight=False, markup=False)
