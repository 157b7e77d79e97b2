"""What `tools/study_cover.py` prints, and that it would notice what does not hold."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import study_cover
from study_cover import clickers, listed, planted_for, true_difference, values_of, world

from palate.seeding import rng


def test_the_true_difference_is_that_of_rounded_ratings() -> None:
    stream, planted = np.random.default_rng(0), planted_for(0.25, 0.3)
    assert true_difference(planted, 0.3) == pytest.approx(0.25, abs=1e-9)
    assert planted > 0.25
    n = 400_000  # a rater and a pair of its own each, so nothing is shared
    ratings, _ = values_of(np.arange(n), np.arange(n), planted, 0.3, stream)
    assert np.mean(ratings[:, 0] - ratings[:, 1]) == pytest.approx(0.25, abs=0.006)


def test_pairs_have_three_raters_and_early_ones_stop_after_a_third() -> None:
    stream = rng("test", 0)
    rater, pair = listed(12, stream, early=False)
    assert np.bincount(pair).tolist() == [3] * 100
    assert np.bincount(rater).tolist() == [25] * 12
    assert len(set(zip(rater.tolist(), pair.tolist(), strict=True))) == 300
    rater, _ = listed(12, stream, early=True)
    assert np.bincount(rater).tolist() == [9] * 6 + [25] * 6


def test_who_answers_three_and_three_shows_nothing_with_checks_and_much_without(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [line for line, _ in clickers(4, seed=1)]
    assert [line[0] for line in lines] == ["0%", "25%", "50%", "75%", "100%"]
    assert all(float(cell) <= 0.25 for line in lines for cell in line[1:])
    # Were these raters taken to see, three of four who do not look would find all alike.
    stream, planted = rng("test", 2), planted_for(0.5, 0.08)
    drawn = [world(12, 0.08, planted, stream, clicking=0.75) for _ in range(12)]
    seeing = [
        it._replace(checks=np.where(np.arange(4) % 2, 3.0, 2.0) * np.ones((12, 1))) for it in drawn
    ]
    assert np.mean([it.tested(0.25, everybody=True) for it in seeing]) > 0.1
    assert not any(it.tested(0.25, everybody=True) for it in drawn)


def test_what_does_not_hold_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study_cover, "RATERS", (12,))
    monkeypatch.setattr(study_cover, "SPREADS", (0.08,))
    monkeypatch.setattr(study_cover, "CLICKED", (1.0,))
    monkeypatch.setattr(
        study_cover, "true_alphas", lambda *_: dict.fromkeys(study_cover.SCALES, 9.0)
    )
    monkeypatch.setattr(sys, "argv", ["study_cover.py", "--worlds", "8"])
    assert study_cover.main() == 1
    printed = capsys.readouterr().out
    full = next(line for line in printed.splitlines() if line.startswith("| 12 | full"))
    wrong, power, planned, *covers = map(float, full.strip("| ").split(" | ")[3:])
    assert (wrong <= 0.5, power >= 0.5, planned) == (True, True, 0.851)
    assert covers == [0, 0, 0]
    assert "broken: 12 raters, 0.08, full: cover of α" in printed
