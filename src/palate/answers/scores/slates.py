"""All texts of a row as one slate: what N answers share is read once."""

from __future__ import annotations

from collections.abc import Sequence

from palate.evaluation.context_rows import ContextRows
from palate.records import Slate


class TextRows:
    """Each row with texts given for it as candidates, such as answers that were drawn."""

    def __init__(self, rows: ContextRows, texts: Sequence[tuple[str, ...]]) -> None:
        self.rows, self.texts = rows, texts

    def __len__(self) -> int:
        return len(self.texts)

    def prepare(self) -> None:
        """Let the context do at once what would be costly row by row."""
        self.rows.prepare()

    def id(self, row: int) -> str:
        """Return the benchmark row's id."""
        return self.rows.id(row)

    def slate(self, row: int) -> Slate:
        """Return the benchmark row's slate with the answers as candidates."""
        return self.rows.slate(row).replace(candidates=self.texts[row])

    def candidates(self, row: int) -> tuple[str, ...]:
        """Return the answers."""
        return self.texts[row]
