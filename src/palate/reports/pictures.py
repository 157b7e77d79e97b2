"""Pictures on disk: what all plots begin and end with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palate.errors import UsageError, needing
from palate.files import whole_file


def check_picture(file: Path | None) -> Path | None:
    """Return a picture's name; raises `UsageError` for another, before hours go into one."""
    if file is None:
        return None
    figure, _ = panels(1, 1, (1, 1))
    if file.suffix.lower().lstrip(".") not in figure.canvas.get_supported_filetypes():
        raise UsageError(f"--plot {file}: expected a file that ends in .png or .svg")
    return file


def panels(rows: int, columns: int, size: tuple[float, float], **more: Any) -> tuple[Any, Any]:
    """Return a figure and its axes (rows × columns); `size` is of one panel, in inches.

    Raises `UsageError` without matplotlib.
    """
    with needing("--plot needs", "plot"):
        from matplotlib.figure import Figure
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, **more)
    for ax in axes.flat:
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save(figure: Any, file: Path) -> None:
    """Write a picture, the same bytes each time, and make its folder where there is none.

    Raises `UsageError` where it cannot be written.
    """
    try:
        with whole_file(file) as stream:
            figure.savefig(
                stream,
                format=file.suffix[1:] or "png",
                dpi=150,
                metadata={"Date": None} if file.suffix == ".svg" else None,
            )
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: cannot be written ({error})") from error
