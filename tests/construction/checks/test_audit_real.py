"""Audits of real authors' and askers' pairs: what length and style tell without the user."""

from __future__ import annotations

from pathlib import Path

import pytest

from palate.construction import audit


@pytest.mark.parametrize(
    ("name", "leaks", "longest", "probe", "words"),
    [
        ("author", 14, (0.559, 0.464, 0.654), 0.563, "not shown: about 4,300 pairs needed"),
        ("accepted", 4, (0.691, 0.617, 0.765), 0.695, "refuted"),
    ],
)
def test_what_is_told_without_the_user(
    real_data: Path,
    name: str,
    leaks: int,
    longest: tuple[float, float, float],
    probe: float,
    words: str,
) -> None:
    summary = audit(real_data / f"stackexchange_{name}.jsonl.gz", root=None).summary
    failed = {check.name: check.n_failed for check in summary.checks}
    assert failed["leak"] == leaks
    of_length, _, of_style = summary.without_user
    figure = of_length.accuracy
    assert (figure.value, figure.low, figure.high) == pytest.approx(longest, abs=0.0006)
    assert of_length.words == words
    assert of_style.accuracy.value == pytest.approx(probe, abs=0.001)
    assert bool(summary.refuted) == (name == "accepted")
