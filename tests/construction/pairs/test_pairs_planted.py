"""What `tools/planted_build.py` prints, and that it would notice a build that reports wrongly."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools"))

import planted_build
from planted_build import KEPT, REPORTED, Script, noise, planted


@pytest.mark.parametrize(("rejected", "good"), [("mirror", 12), ("violate", 28)])
def test_each_planted_fault_is_reported_and_no_other(tmp_path, rejected, good):
    outcome = planted(1, good, rejected, tmp_path)  # filters are tried on 30 rows
    assert outcome.holds, outcome.text
    lines = outcome.text.splitlines()[4:]
    assert lines == [
        *(f"| {fault} | {reported}: 1 |" for fault, reported in REPORTED.items()),
        f"| {KEPT} | kept: {good} |",
    ]


def test_a_fault_that_is_not_there_is_noticed(tmp_path, monkeypatch):
    read = Script.read
    monkeypatch.setattr(
        Script, "read", lambda self, number, prompt: read(Script([None] * 99), number, prompt)
    )
    outcome = planted(1, 3, "violate", tmp_path)
    assert not outcome.holds
    assert "| unreadable | kept: 1 |" in outcome.text


def test_noise_that_passes_always_is_noticed(tmp_path, monkeypatch):
    assert noise(300, tmp_path / "drawn").holds

    def taste(_: str, answer: str, title: str) -> float:
        place, _, number = answer.split()
        return float(title == f"taste of {number}{'a' if place == 'first' else 'b'}")

    monkeypatch.setattr(planted_build, "unit", taste)
    outcome = noise(20, tmp_path / "told")
    assert outcome.text == "pure noise: 100.0% of 20 couples pass"
    assert not outcome.holds
