"""Results on stdout, progress on stderr."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from palate.evaluation import Progress as Advance
from palate.reports import Form, Table, printable, render, seconds, stacked


class PrintableConsole(Console):
    """A console to which no text of the data can speak in escape sequences."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, with control characters of texts made visible."""
        super().print(
            *(printable(each) if isinstance(each, str) else each for each in objects), **options
        )


err = PrintableConsole(stderr=True, soft_wrap=True, emoji=False)
LINE_EVERY_S = 20.0


def show(tables: Sequence[Table], form: Form, document: object) -> None:
    """Print tables, or the JSON document they are made of."""
    if form is Form.JSON:
        text = json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)
        # JSON escapes control characters up to 0x1f; a terminal obeys those up to 0x9f.
        sys.stdout.write(re.sub("[\x7f-\x9f]", lambda c: f"\\u{ord(c.group()):04x}", text) + "\n")
        return
    out = Console(emoji=False)
    if form is Form.TABLE and out.is_terminal:
        out.print(stacked(tables), crop=False)
    else:
        sys.stdout.write(render(tables, form))


def show_text(text: str) -> None:
    """Print text on stdout, its control characters made visible."""
    sys.stdout.write(f"{printable(text)}\n")


def width() -> int:
    """Return how many columns the terminal has; 100 where there is none."""
    return Console().width if sys.stdout.isatty() else 100


class Rate(ProgressColumn):
    """Rows per second."""

    def render(self, task: Task) -> Text:
        """Return the speed, once there is one."""
        return Text(f"{task.speed:,.1f}/s" if task.speed else "")


class Note(ProgressColumn):
    """A few words that change, such as what was spent."""

    def __init__(self, note: Callable[[], str]) -> None:
        super().__init__()
        self._note = note

    def render(self, task: Task) -> Text:
        """Return the words as they are now."""
        return Text("" if task.finished else self._note())


class Bars:
    """One bar per piece of work on a terminal; in a log, a line now and then."""

    def __init__(self, progress: Progress, note: Callable[[], str]) -> None:
        self._progress, self._note = progress, note
        self._printed = time.monotonic()

    def start(self, label: str) -> Advance:
        """Return the callback of a new piece of work."""
        if not err.is_terminal:
            return self._lines(label)
        task = self._progress.add_task(label, total=None)

        def advance(done: int, total: int) -> None:
            self._progress.update(task, completed=done, total=total)

        return advance

    def _lines(self, label: str) -> Advance:
        """Print a line when none was printed for a while, whichever piece that time went into."""
        started = time.monotonic()
        announced = False

        def advance(done: int, total: int) -> None:
            nonlocal announced
            now = time.monotonic()
            if now - self._printed < LINE_EVERY_S and not (announced and done == total):
                return
            self._printed, announced = now, True
            words = [f"{label}: {done:,} of {total:,}"]
            if done and now - started >= 1:  # what was there already has no speed
                rate = done / (now - started)
                words.append(f"{rate:.2g}/s")
                if done < total:
                    words.append(f"{seconds((total - done) / rate)} left")
            if spent := self._note():
                words.append(spent)
            err.print(", ".join(words), highlight=False)

        return advance


@contextmanager
def bars(note: Callable[[], str] = lambda: "") -> Iterator[Bars]:
    """Show progress bars on stderr, and a note that changes."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        Rate(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        Note(note),
    )
    with Progress(*columns, console=err, refresh_per_second=2, disable=not err.is_terminal) as bar:
        yield Bars(bar, note)
