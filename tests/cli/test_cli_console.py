"""Progress: in a log a line every ten seconds, on a terminal a bar; rate, requests and cost."""

from __future__ import annotations

import io
import threading
import time
from contextlib import nullcontext
from decimal import Decimal

import pytest
from rich.console import Console

from palate.cli import console
from palate.engines import Ledger


@pytest.fixture
def log(monkeypatch):
    """A log, and a clock that stands still; no thread ticks."""
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr(console, "err", Console(file=stream, width=200, soft_wrap=True))
    monkeypatch.setattr(console, "Ticking", lambda tick: nullcontext())
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    return stream, now


def test_a_log_gets_a_line_every_ten_seconds_with_rate_and_cost(log):
    stream, now = log
    ledger = Ledger()
    with console.bars(ledger.line) as shown:
        advance = shown.start("judge · none")
        for second in range(1, 26):
            now[0] = float(second)
            ledger.reserve(Decimal(0))
            ledger.settle(Decimal(0), Decimal("0.01"))
            advance(4 * second, 100)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3, "at 10 s, at 20 s and at the end"
    assert lines[0] == "judge · none: 40 of 100, 4/s, 15 s left, 10 requests, $0.1000"
    assert lines[2].endswith("100 of 100, 4/s, 25 requests, $0.2500")


def test_without_an_endpoint_nothing_is_said_of_cost(log):
    stream, now = log
    with console.bars() as shown:
        advance = shown.start("longest")
        now[0] = 25.0
        advance(50, 100)
    assert stream.getvalue().strip() == "longest: 50 of 100, 2/s, 25 s left"


def test_many_short_pieces_get_a_line_every_ten_seconds_together(log):
    stream, now = log
    with console.bars() as shown:
        shown.start("kept earlier")(9, 9)
        for piece in range(5):
            advance = shown.start(f"piece {piece}")
            for done in range(1, 6):
                now[0] += 1.0
                advance(done, 5)
        shown.start("there already")(7, 7)
    assert stream.getvalue().splitlines() == ["piece 1: 5 of 5, 1/s", "piece 3: 5 of 5, 1/s"]


def test_a_line_comes_though_nothing_advances(log):
    stream, now = log
    with console.bars() as shown:

        def tick(seconds):
            now[0] += seconds
            shown.tick()

        tick(9.0)
        tick(1.0)
        advance = shown.start("judge · none")
        tick(11.0)
        advance(0, 40)
        tick(10.0)
        advance(20, 40)
        tick(9.0)
        tick(1.0)
        advance(40, 40)
        tick(30.0)
    assert stream.getvalue().splitlines() == [
        "still at work: 10 s so far",
        "judge · none: 11 s so far",
        "judge · none: 0 of 40, 21 s so far",
        "judge · none: 20 of 40, 0.65/s, 31 s left",
        "judge · none: 40 of 40, 1.3/s",
        "still at work: 71 s so far",
    ]


def test_a_thread_of_its_own_prints_the_line_and_ends(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(console, "err", Console(file=stream, width=200, soft_wrap=True))
    monkeypatch.setattr(console, "LINE_EVERY_S", 0.05)
    with console.bars() as shown:
        shown.start("silent work")
        deadline = time.monotonic() + 20
        while "silent work" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert stream.getvalue().startswith("silent work: 0.")
    assert not any(thread.name == "palate-progress" for thread in threading.enumerate())


def test_requests_are_told_as_waiting_under_way_and_done(log):
    _, now = log
    ledger = Ledger()
    assert ledger.progress() == ""
    with ledger.counted("wanted"), ledger.counted("wanted"), ledger.counted("wanted"):
        with ledger.counted("on its way"):
            now[0] = 30.0
            ledger.replied((1000, 234))
            ledger.replied(None)
            ledger.reserve(Decimal(0))
            ledger.settle(Decimal(0), Decimal("0.5"))
            assert ledger.progress() == (
                "2 waiting, 1 under way, 2 done, 4 a minute, 1,234 tokens, $0.5000"
            )
        now[0] = 95.0
        assert ledger.progress().startswith("3 waiting, 0 under way, 2 done, 0 a minute, ")
    assert ledger.progress() == "1 requests, $0.5000", "nothing is asked any more"


def terminal(monkeypatch):
    stream = io.StringIO()
    shown = Console(file=stream, width=160, force_terminal=True, no_color=True)
    monkeypatch.setattr(console, "err", shown)
    return stream


def test_time_taken_is_never_called_time_left(monkeypatch):
    stream, now = terminal(monkeypatch), [0.0]
    with console.bars(lambda: "8 under way") as shown:
        shown._progress.get_time = lambda: now[0]
        advance = shown.start("judge · none")
        now[0] = 4.0
        before = drawn(shown)
        advance(0, 100)
        for done in (10, 20):
            now[0] += 10.0
            advance(done, 100)
        after = drawn(shown)
    assert "0/?" in before
    assert "0:00:04 so far 8 under way" in before, "and the note, below"
    assert "left" not in before
    assert "0:00:24, 0:01:20 left 8 under way" in after
    assert stream.getvalue()


def drawn(shown):
    page = Console(file=io.StringIO(), width=160, no_color=True)
    page.print(shown._progress.get_renderable())
    return " ".join(page.file.getvalue().split())
