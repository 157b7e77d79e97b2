"""Two rounds of choices over time: older states fall behind where a taste turned, newer do not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import run, write_rows

START, TURN = datetime(2026, 1, 1, tzinfo=UTC), "2026-03-01"
USERS, DAYS = 40, 118


def rows() -> Iterator[dict[str, Any]]:
    """Half of the users like exclamation marks, half do not; in March the red team turns.

    Every tenth day ends with a question for the test, the others are past choices.
    """
    stream = np.random.default_rng(0)
    for day in range(0, DAYS, 5):
        loud = " ".join(["Go!"] * int(stream.integers(3, 9)))
        calm = " ".join(["contemplation"] * int(stream.integers(3, 9)))
        date = START + timedelta(days=day, hours=20)
        for user in range(USERS):
            red = user % 4 < 2
            likes_loud = (user % 2 == 0) != (red and date.isoformat() >= TURN)
            first = likes_loud == (stream.random() < 0.95)
            yield {
                "id": f"{day}-{user}",
                "user_id": f"u{user}",
                "question": f"Day {day}?",
                "chosen": loud if first else calm,
                "rejected": calm if first else loud,
                "split": "adapt" if day % 10 else "test",
                "date": date.isoformat(),
                "traits": {"team": "red" if red else "blue"},
            }


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train on the first round, adapt to it, and to the second with the same model."""
    folder = tmp_path_factory.mktemp("loop")
    file = folder / "rows.jsonl"
    write_rows(file, rows())
    words = ("--data", file, "--embedder", "style", "--until", TURN, "-o", folder / "model")
    assert "pref from 240 choices of 40 users" in run("train", "pref", *words)
    for name, window in (("old", ("--until", TURN)), ("new", ("--since", TURN))):
        run("adapt", folder / "model", "--choices", file, *window, "-o", states(folder, name))
    return folder


def states(folder: Path, name: str) -> Path:
    return folder / f"{name}.safetensors"


def groups(folder: Path, name: str, by: str, *days: str) -> dict[str, Any]:
    """Return the report by group of the model with these users' states."""
    spec = f"personal:{folder / 'model'}?users={states(folder, name)}"
    words = ("-b", folder / "rows.jsonl", "-s", spec, "-c", "none", *days, "--by", by)
    document = json.loads(run("evaluate", *words, "-o", folder / "runs", "--format", "json"))
    (report,) = (each for each in document["groups"] if each["scorer"] == spec)
    return report


def accuracies(report: dict[str, Any]) -> dict[str, float]:
    return {group["name"]: group["accuracy"]["value"] for group in report["groups"]}


def test_older_states_fall_behind_in_the_team_whose_taste_turned(loop: Path) -> None:
    old = groups(loop, "old", "trait:team", "--since", TURN)
    new = groups(loop, "new", "trait:team", "--since", TURN)
    assert accuracies(old)["red"] < 0.15
    assert accuracies(old)["blue"] > 0.85
    assert min(accuracies(new).values()) > 0.85
    gap = old["largest_gap"]
    assert (gap["a"], gap["b"]) == ("blue", "red")
    assert gap["low"] > 0.7
    assert abs(new["largest_gap"]["value"]) < 0.15


def test_the_month_in_which_it_turned_is_named(loop: Path) -> None:
    report = groups(loop, "old", "month")
    months = accuracies(report)
    assert list(months) == ["2026-01", "2026-02", "2026-03", "2026-04"]
    assert min(months["2026-01"], months["2026-02"]) > 0.85
    assert max(months["2026-03"], months["2026-04"]) < 0.6
    gap = report["largest_gap"]
    assert gap["a"] < "2026-03" <= gap["b"]
    assert gap["p_holm"] < 0.05
    before = groups(loop, "old", "trait:team", "--until", TURN)
    assert min(accuracies(before).values()) > 0.85


def test_newer_states_fall_behind_in_no_month(loop: Path) -> None:
    months = accuracies(groups(loop, "new", "month", "--since", TURN))
    assert set(months) == {"2026-03", "2026-04"}
    assert min(months.values()) > 0.85
