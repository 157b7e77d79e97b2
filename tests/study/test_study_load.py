"""A study's server under load, killed in between: all that was acknowledged is stored once."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import study_load


def test_a_killed_server_loses_no_acknowledged_answer(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--raters", "5", "--per-pair", "1", "--kills", "1")
    monkeypatch.setattr(sys, "argv", ["study_load.py", *words])
    assert study_load.main() == 0
    printed = capsys.readouterr().out.splitlines()
    counts = {line[:24].strip(): int(line[24:].replace(",", "")) for line in printed}
    assert counts["acknowledged answers"] == counts["stored"] > 200
    assert counts["kills"] == 1
    assert (counts["lost, or another one"], counts["twice"], counts["foreign"]) == (0, 0, 0)
