"""The different answers to every row as one slate: what N answers share is read once."""

from __future__ import annotations

from palate.answers.samples import Samples
from palate.evaluation.context_rows import ContextRows
from palate.records import Slate


class SampleRows:
    """Each row with its different answers as candidates, in the order they were drawn."""

    def __init__(self, rows: ContextRows, samples: Samples) -> None:
        self.rows = rows
        self.texts: list[tuple[str, ...]] = [
            tuple(dict.fromkeys(one.text for one in own if one.text.strip()))
            for own in samples.of_row
        ]

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
