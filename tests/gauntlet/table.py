"""Print the gauntlet's tables: each cell is `equal`, or `refused:` with the number of its line.

python tests/gauntlet/table.py [part of a family's name]
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from cell_grids import BY_BOTH, BY_SCORER, BY_TOKENIZER, BY_VARIANT, Cell
from cells import Cells
from outcomes import is_expected
from shelf import Shelf

from palate.models import import_transformers

CLASSES = re.compile(r"<class '[^']*'>|\b[A-Z]\w+?(?=(?:For[A-Z]\w+|LMHeadModel)\b)")


class Lines:
    """Numbers the lines of refusals, which differ by family in the names of classes alone."""

    def __init__(self) -> None:
        self.numbered: dict[str, int] = {}
        self.wrong: list[str] = []

    def short(self, outcome: str) -> str:
        """Return what stands in the cell."""
        if not outcome.startswith("refused: "):
            return outcome
        line = CLASSES.sub("…", outcome.removeprefix("refused: "))
        return f"refused: {self.numbered.setdefault(line, len(self.numbered) + 1)}"


def main() -> int:
    """Print the four tables and the lines; the exit code is 1 where a cell is wrong."""
    part = sys.argv[1].casefold() if len(sys.argv) > 1 else ""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    import_transformers()  # its progress bars go off
    lines = Lines()
    with tempfile.TemporaryDirectory() as root:
        os.environ["PALATE_CACHE"] = f"{root}/cache"
        shelf = Shelf(Path(root))
        tables: tuple[tuple[list[Cell], Callable[[Cell], str], Callable[[Cell], str]], ...] = (
            (BY_SCORER, lambda it: it.name, lambda it: it.column),
            (BY_TOKENIZER, lambda it: it.name, lambda it: str(it.kind)),
            (BY_VARIANT, lambda it: it.name, lambda it: it.column),
            (BY_BOTH, lambda it: f"{it.name}, {it.kind}", lambda it: it.column),
        )
        for every, row, column in tables:
            some = [cell for cell in every if part in cell.name.casefold()]
            _print(_rows(shelf, lines, some, row, column))
    told = [f"{number:>2}  {line}" for line, number in lines.numbered.items()]
    sys.stdout.write("\n".join([*told, *lines.wrong, ""]))
    return bool(lines.wrong)


def _rows(
    shelf: Shelf,
    lines: Lines,
    cells: Iterable[Cell],
    row: Callable[[Cell], str],
    column: Callable[[Cell], str],
) -> Iterator[dict[str, str]]:
    made: dict[str, str] = {}
    of: Cells | None = None
    for cell in cells:
        if of is None or (of.name, of.tokenizer) != (cell.name, cell.kind):
            of = Cells(shelf, cell.name, cell.kind)
        if made and made[""] != row(cell):
            yield made
            made = {}
        made |= {"": row(cell), column(cell): lines.short(_outcome(of, cell, lines))}
    if made:
        yield made


def _outcome(of: Cells, cell: Cell, lines: Lines) -> str:
    try:
        outcome = of.outcome(cell.column, lightly=cell.lightly)
    except Exception as error:  # whatever went wrong, the other cells are told
        outcome = f"{type(error).__name__}: {error}"
    if is_expected(outcome, cell.name, cell.column, cell.kind):
        return outcome
    lines.wrong.append(f"WRONG  {cell}: {outcome}")
    return "WRONG"


def _print(rows: Iterable[dict[str, str]]) -> None:
    whole = list(rows)
    if not whole:
        return
    names = {name: name for name in whole[0]}
    widths = {name: max(len(row[name]) for row in (names, *whole)) for name in names}
    for row in (names, *whole):
        cells = (row[name].ljust(width) for name, width in widths.items())
        sys.stdout.write("  ".join(cells).rstrip() + "\n")
    sys.stdout.write("\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
