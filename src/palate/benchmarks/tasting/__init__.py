"""`tasting`, the bundled benchmark: 48 mirrored couples of 32 fictional users.

A couple is two users, one question, and one response for each: A's chosen is B's rejected by
construction, so the mirror law cannot be broken by a slip of the pen.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from palate.benchmarks.dataset import Dataset
from palate.benchmarks.registry import Benchmark
from palate.data import LoadOptions
from palate.errors import BenchmarkError

SUBSETS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")


def rows(subset: str) -> Iterator[dict[str, Any]]:
    """Yield the two rows of each couple of a subset."""
    text = files(__package__).joinpath(f"{subset}.json").read_text(encoding="utf-8")
    written = json.loads(text)
    profile = {user["user_id"]: user["posts"] for user in written["users"]}
    for couple in written["couples"]:
        for side, mirror in (couple["sides"], couple["sides"][::-1]):
            yield {
                "id": f"{couple['id']}-{side['user_id']}",
                "mirror_of": f"{couple['id']}-{mirror['user_id']}",
                "user_id": side["user_id"],
                "subset": subset,
                "category": couple["category"],
                "question": couple["question"],
                "profile": profile[side["user_id"]],
                "narrative": side["narrative"],
                "rubric_aspects": side["rubric_aspects"],
                "chosen": side["response"],
                "rejected": mirror["response"],
            }


def _load(options: LoadOptions) -> Dataset:
    if options.source is not None or options.revision is not None or options.columns:
        raise BenchmarkError("tasting is bundled: it takes no --source, --revision or --map")
    return Dataset.from_rows(BENCHMARK.name, (row for subset in SUBSETS for row in rows(subset)))


BENCHMARK = Benchmark(
    name="tasting",
    description="48 mirrored couples of 32 fictional users; works at once, without a network",
    loader=_load,
    licence="CC BY 4.0",
    citation="The palate authors (2026). tasting, a bundled benchmark of mirrored preferences.",
    subsets=SUBSETS,
)
