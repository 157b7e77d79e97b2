"""The verdicts of one run, row by row: what statistics read, and what `compare` pairs."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.errors import RunError
from palate.records import Outcome, Record


class VerdictRow(Record):
    """One row's verdict with what statistics need of its pair."""

    id: str
    content: str
    """Hash of question and responses: rows are paired between runs by id and content."""
    user: str
    subset: str
    mirror_of: str | None
    outcome: Outcome
    margin: float | None
    orders: tuple[float | None, ...] = ()
    chosen_first: bool = True
    """Whether the chosen response stood first in the slate."""
    reason: str | None = None
    own_words: int = 0
    lengths: tuple[int, int]
    """Characters of chosen and rejected."""


class Verdicts:
    """Rows as columns."""

    def __init__(self, rows: Iterable[VerdictRow]) -> None:
        self.rows: Sequence[VerdictRow] = tuple(rows)

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def keys(self) -> list[tuple[str, str]]:
        """Id and content of each row: what rows of two runs are paired by."""
        return [(row.id, row.content) for row in self.rows]

    @cached_property
    def users(self) -> NDArray[np.str_]:
        """Whose row it is."""
        return np.array([row.user for row in self.rows])

    @cached_property
    def subsets(self) -> NDArray[np.str_]:
        """The subset of each row."""
        return np.array([row.subset for row in self.rows])

    @cached_property
    def values(self) -> NDArray[np.float64]:
        """1 chosen, ½ tie, 0 rejected, NaN unscored."""
        return np.array([row.outcome.credit for row in self.rows], dtype=float)

    @cached_property
    def margins(self) -> NDArray[np.float64]:
        """Margin of chosen over rejected, NaN where unscored."""
        return np.array(
            [np.nan if row.margin is None else row.margin for row in self.rows], dtype=float
        )

    @cached_property
    def own_words(self) -> NDArray[np.int64]:
        """Words of the user's own shown part."""
        return np.array([row.own_words for row in self.rows])

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Characters of chosen and rejected, shape (rows, 2)."""
        return np.array([row.lengths for row in self.rows]).reshape(-1, 2)

    @cached_property
    def couples(self) -> NDArray[np.int64]:
        """Positions of the two rows of each couple, shape (couples, 2)."""
        position = {row.id: k for k, row in enumerate(self.rows)}
        found = []
        for k, row in enumerate(self.rows):
            other = position.get(row.mirror_of or "")
            if other is not None and k < other and self.rows[other].mirror_of == row.id:
                found.append((k, other))
        return np.array(found, dtype=np.int64).reshape(-1, 2)

    @property
    def mirrored(self) -> bool:
        """True where every row stands in a couple."""
        return len(self) > 0 and 2 * len(self.couples) == len(self)

    def save(self, path: Path) -> None:
        """Write one JSON object a row, all or nothing."""
        write_whole(path, "".join(f"{row.model_dump_json()}\n" for row in self.rows))

    @classmethod
    def load(cls, path: Path) -> Verdicts:
        """Read what `save` wrote."""
        try:
            lines = path.read_text(encoding="utf-8").split("\n")
            return cls(VerdictRow.model_validate_json(line) for line in lines if line)
        except (OSError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise RunError(f"{path}: no readable verdicts ({reason})") from error


def write_whole(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old one or the new one, never half."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)


def write_json(path: Path, value: object) -> None:
    """Write indented JSON without NaN, keys in the order given, all or nothing."""
    write_whole(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
