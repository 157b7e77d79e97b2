"""Small sets of pairs, and what the checks say of them."""

from __future__ import annotations

from typing import Any

from pairs import pair_of
from palate.benchmarks import Dataset, as_mirrored
from palate.construction.audit import CheckOptions, CheckResult, check_rows
from palate.evaluation import Work
from palate.records import Post, RubricAspect

NUMBERS = [
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen"),
]


def words(first: int, end: int) -> str:
    """Return the words from the first number to the last one named."""
    return " ".join(NUMBERS[first - 1 : end])


def post(text: str, name: str = "p1", date: str | None = None) -> Post:
    return Post(id=name, text=text, date=date)


def aspect(title: str = "No milk", reason: str = "", evidence: str = "") -> RubricAspect:
    return RubricAspect(aspect=title, reason=reason, evidence=evidence)


def row(name: str = "1", user: str = "ann", **fields: Any) -> Any:
    texts = {"text": "Tea?", "chosen": "Black, please.", "rejected": "With milk."}
    return pair_of(id=name, user_id=user, **(texts | fields))


def set_of(*rows: Any) -> Dataset:
    return as_mirrored(Dataset("teas", rows))


def checked(
    *rows: Any, options: CheckOptions | None = None, work: Work | None = None
) -> dict[str, CheckResult]:
    results = check_rows(set_of(*rows), options or CheckOptions(), work or Work.of())
    return {result.name: result for result in results}
