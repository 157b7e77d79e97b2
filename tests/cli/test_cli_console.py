"""Progress in a log: a line now and then, with the rate and what was spent."""

from __future__ import annotations

import io
from decimal import Decimal

from rich.console import Console

from palate.cli import console
from palate.engines.http import Ledger


def test_a_log_gets_a_line_every_twenty_seconds_with_rate_and_cost(monkeypatch):
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr(console, "err", Console(file=stream, width=200, soft_wrap=True))
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    ledger = Ledger()
    with console.bars(ledger.line) as shown:
        advance = shown.start("judge · none")
        for second in range(1, 51):
            now[0] = float(second)
            ledger.reserve(Decimal(0))
            ledger.settle(Decimal(0), Decimal("0.01"))
            advance(2 * second, 100)
    lines = stream.getvalue().splitlines()
    assert len(lines) == 3, "at 20 s, at 40 s and at the end"
    assert lines[0] == "judge · none: 40 of 100, 2/s, 30 s left, 20 requests, $0.2000"
    assert lines[2].endswith("100 of 100, 2/s, 50 requests, $0.5000")


def test_without_an_endpoint_nothing_is_said_of_cost(monkeypatch):
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr(console, "err", Console(file=stream, width=200, soft_wrap=True))
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with console.bars() as shown:
        advance = shown.start("longest")
        now[0] = 25.0
        advance(50, 100)
    assert stream.getvalue().strip() == "longest: 50 of 100, 2/s, 25 s left"


def test_many_short_pieces_get_a_line_every_twenty_seconds_together(monkeypatch):
    stream, now = io.StringIO(), [0.0]
    monkeypatch.setattr(console, "err", Console(file=stream, width=200, soft_wrap=True))
    monkeypatch.setattr(console.time, "monotonic", lambda: now[0])
    with console.bars() as shown:
        shown.start("kept earlier")(9, 9)
        for piece in range(9):
            advance = shown.start(f"piece {piece}")
            for done in range(1, 6):
                now[0] += 1.0
                advance(done, 5)
        shown.start("there already")(7, 7)
    assert stream.getvalue().splitlines() == ["piece 3: 5 of 5, 1/s", "piece 7: 5 of 5, 1/s"]
