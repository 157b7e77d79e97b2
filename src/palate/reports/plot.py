"""A result as one picture: what a page shows of it, side by side."""

from __future__ import annotations

from pathlib import Path

from palate.errors import UsageError
from palate.reports.page.contents import GROUP
from palate.reports.page.figures.drawing import figure_of, look
from palate.reports.page.names import Names
from palate.reports.page.parts import Picture
from palate.reports.pictures import save
from palate.runs import Result
from palate.specs import load


def plot(result: Result, file: Path) -> None:
    """Draw a result into a PNG or SVG.

    Raises `UsageError` without matplotlib, for a result that has no drawing, or where the file
    cannot be written.
    """
    parts = load(GROUP, result.kind)(result, Names({}, {}, {}), 0)
    pictures = [part for part in parts if isinstance(part, Picture)]
    drawn = [(each.title, each.draw) for each in pictures if each.draw is not None]
    if not drawn:
        raise UsageError(f"--plot: this {result.kind} has too little for a drawing")
    figure = figure_of([draw for _, draw in drawn], [title for title, _ in drawn])
    with look():
        save(figure, file)
