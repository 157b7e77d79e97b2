"""Holm's correction over the tests of a table: the one place where a p becomes a corrected one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeVar

from palate.metrics import holm
from palate.records import Record

R = TypeVar("R", bound=Record)


def holm_within(families: Sequence[Hashable], p: Sequence[float | None]) -> list[float | None]:
    """Return each test's p, Holm-corrected over its family; None for one of the family None.

    >>> holm_within(["a", "b", "a", None], [0.01, 0.04, 0.03, 0.001])
    [0.02, 0.04, 0.03, None]
    """
    corrected = {
        family: iter(holm([one for one, of in zip(p, families, strict=True) if of == family]))
        for family in {*families} - {None}
    }
    return [None if family is None else next(corrected[family]) for family in families]


def with_holm(
    records: Sequence[R],
    p: Sequence[float | None],
    families: Sequence[Hashable] | None = None,
    *,
    into: str = "p_holm",
) -> list[R]:
    """Return records with their corrected p; without `families` all are of one."""
    corrected = holm_within([""] * len(p) if families is None else families, p)
    return [
        record.model_copy(update={into: value})
        for record, value in zip(records, corrected, strict=True)
    ]
