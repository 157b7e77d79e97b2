"""Results on stdout, progress on stderr."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.table import Column
from rich.text import Text

from palate.engines import Ledger
from palate.evaluation import Progress as Advance
from palate.reports import Form, Table, printable, render, seconds, stacked
from palate.runs import Result, Tabular


class PrintableConsole(Console):
    """A console to which no text of the data can speak in escape sequences."""

    def print(self, *objects: Any, **options: Any) -> None:
        """Print, with control characters of texts made visible."""
        super().print(
            *(printable(each) if isinstance(each, str) else each for each in objects), **options
        )


err = PrintableConsole(stderr=True, soft_wrap=True, emoji=False, highlight=False, markup=False)
LINE_EVERY_S = 10.0


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
        sys.stdout.write(render(tables, form, width=width()))


def show_result(result: Tabular, form: Form, picture: Path | None = None) -> None:
    """Print a result, as its kind has it, and draw it into a file where one is named."""
    show(cast("Sequence[Table]", result.tables()), form, result.document())
    if picture is not None:
        from palate.reports.contents import plot  # a page's parts, and few calls draw

        plot(cast("Result", result), picture)


def show_text(text: str) -> None:
    """Print text on stdout, its control characters made visible."""
    sys.stdout.write(f"{printable(text)}\n")


def wrapped_text(text: str, cells: int) -> list[str]:
    """Return a person's text in lines of so many cells; letters as wide as two take two.

    >>> wrapped_text("one two", 4), wrapped_text("热的红茶", 4)
    (['one', 'two'], ['热的', '红茶'])
    """
    return [line.plain.rstrip() for line in Text(printable(text)).wrap(err, cells)]


def width() -> int:
    """Return how many columns the terminal or $COLUMNS has; 100 where there is neither."""
    return Console().width if sys.stdout.isatty() or os.environ.get("COLUMNS") else 100


class Rate(ProgressColumn):
    """Rows per second."""

    def render(self, task: Task) -> Text:
        """Return the speed, once there is one."""
        return Text(f"{task.speed:,.1f}/s" if task.speed else "")


class Times(ProgressColumn):
    """How long it has taken, and, once that can be told, how much longer it will."""

    def render(self, task: Task) -> Text:
        """Return the time so far, and the time left."""
        taken = task.finished_time if task.finished else task.elapsed
        text = _clock(taken or 0.0)
        if task.finished:
            return Text(text)
        if task.time_remaining is None:
            return Text(f"{text} so far")
        return Text(f"{text}, {_clock(task.time_remaining)} left")


def _clock(time: float) -> str:
    minutes, rest = divmod(int(time), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{rest:02d}"


class NotedProgress(Progress):
    """Bars, and below them a few words that change, such as what was spent."""

    def __init__(self, *columns: ProgressColumn, note: Callable[[], str], **options: Any) -> None:
        self._note = note
        super().__init__(*columns, **options)

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the bars, then the words as they are now."""
        yield self.make_tasks_table(self.tasks)
        over = self.tasks and self.finished
        if not over and (note := self._note()):
            yield Text(note, no_wrap=True, overflow="ellipsis")


class Bars:
    """One bar per piece of work on a terminal; in a log, a line now and then."""

    def __init__(self, progress: Progress, note: Callable[[], str]) -> None:
        self._progress, self._note = progress, note
        self._started = self._printed = time.monotonic()
        self._piece: LoggedPiece | None = None
        self._lock = threading.Lock()

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
        piece = self._piece = LoggedPiece(label, time.monotonic())

        def advance(done: int, total: int) -> None:
            with self._lock:
                self._piece, piece.done, piece.total = piece, done, total
                if self._due() or (piece.announced and done == total and not piece.closed):
                    self._print()
                piece.closed = done == total

        return advance

    def tick(self) -> None:
        """Print a line where none was printed for a while, though nothing has advanced."""
        with self._lock:
            if self._due():
                self._print()

    def _due(self) -> bool:
        return time.monotonic() - self._printed >= LINE_EVERY_S

    def _print(self) -> None:
        self._printed = now = time.monotonic()
        words = [f"still at work: {seconds(now - self._started)} so far"]
        if self._piece is not None and not self._piece.closed:
            self._piece.announced = True
            words = self._piece.words(now)
        if note := self._note():
            words.append(note)
        err.print(", ".join(words))


@dataclass
class LoggedPiece:
    """A piece of work, and how far it is, as lines of a log say it."""

    label: str
    started: float
    done: int = 0
    total: int | None = None
    announced: bool = False
    closed: bool = False
    """Whether it was done when it was last heard of."""

    def words(self, now: float) -> list[str]:
        """Return how much is done, how fast, and the time left or, before that is known, so far."""
        so_far = f"{seconds(now - self.started)} so far"
        if self.total is None:
            return [f"{self.label}: {so_far}"]
        words = [f"{self.label}: {self.done:,} of {self.total:,}"]
        if self.done and now - self.started >= 1:  # what was there already has no speed
            rate = self.done / (now - self.started)
            words.append(f"{rate:.2g}/s")
            if self.done < self.total:
                words.append(f"{seconds((self.total - self.done) / rate)} left")
        elif self.done < self.total:
            words.append(so_far)
        return words


class Ticking:
    """Calls something about every second until it is left."""

    def __init__(self, tick: Callable[[], None]) -> None:
        self._tick, self._over = tick, threading.Event()
        self._thread = threading.Thread(target=self._run, name="palate-progress", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(min(1.0, LINE_EVERY_S / 4)):
            self._tick()


@contextmanager
def bars(note: Callable[[], str] = lambda: "") -> Iterator[Bars]:
    """Show progress bars on stderr, and a note that changes."""
    columns = (
        # On a narrow screen the label gives way, not the numbers.
        TextColumn("{task.description}", table_column=Column(overflow="fold")),
        BarColumn(bar_width=24),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        Rate(table_column=Column(no_wrap=True)),
        Times(table_column=Column(no_wrap=True)),
    )
    with NotedProgress(
        *columns,
        note=note,
        console=err,
        refresh_per_second=2,
        transient=True,
        disable=not err.is_terminal,
    ) as bar:
        shown = Bars(bar, note)
        with nullcontext() if err.is_terminal else Ticking(shown.tick):
            yield shown


@contextmanager
def bars_of(ledger: Ledger) -> Iterator[Bars]:
    """Show progress bars and what endpoints cost; say that once more where all went well."""
    with bars(ledger.progress) as shown:
        yield shown
    if spent := ledger.line():
        err.print(f"endpoints: {spent}")
