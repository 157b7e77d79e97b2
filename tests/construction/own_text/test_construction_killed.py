"""Killed anywhere and called again: the same bytes, and no answer is drawn a second time."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from lamp_shaped import clean, read, write

import palate.construction
from children import called
from palate.answers import LanguageModelPolicy
from palate.construction import build_own_text, rows
from palate.records import Settings
from palate.runs import read_manifest

SETTINGS = Settings(dtype="float32")


def build(model: str, folder: Path, start=lambda label: lambda done, total: None):
    """Build the users' pairs against a model's answers, kept below the folder."""
    os.environ["PALATE_CACHE"] = str(folder / "cache")
    return build_own_text(
        write(folder / "lamp", clean(users=2, items=5)), folder / "pairs.jsonl.gz", layout="lamp",
        rejected=f"{model}?max_tokens=4", adapt=3, root=folder / "runs", settings=SETTINGS,
        start=start,
    )  # fmt: skip


def build_until(where: str, after: int, model: str, folder: Path) -> None:
    """Do the same, and kill this process after so many answers or rows, or before the result."""
    left = iter(range(after))

    def count(*_: object) -> None:
        if next(left, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    if where == "answers":
        build(model, folder, lambda label: count)
    elif where == "rows":
        put = rows.RowWriter.write
        rows.RowWriter.write = lambda self, row: (put(self, row), count())  # type: ignore
        build(model, folder)
    else:
        palate.construction.OwnTextBuild.save_with = count  # type: ignore[assignment]
        build(model, folder)


def outcome(folder: Path) -> list[bytes]:
    result = folder / "runs" / "pairs" / "own-text"
    files = [folder / "pairs.jsonl.gz", *(path for path in result.rglob("*") if path.is_file())]
    assert [path.name for path in sorted(files)] == [
        "pairs.jsonl.gz", "manifest.json", "rows.jsonl", "summary.json", "sums.json",
    ]  # fmt: skip
    return [path.read_bytes() for path in sorted(files)]


@pytest.mark.parametrize(
    ("where", "after"),
    [("answers", 0), ("answers", 3), ("answers", 5), ("rows", 1), ("rows", 8), ("result", 0)],
)
def test_a_killed_build_goes_on_where_it_was(tiny, tmp_path, monkeypatch, where, after):
    model = tiny.model()
    whole = build(model, tmp_path / "whole")
    assert whole.rows["adapt"] == {
        "rows": 6, "users": 2, "inputs": 6, "against_authors": 0, "against_model": 6,
    }  # fmt: skip
    killed = tmp_path / "killed"
    call = f"build_until({where!r}, {after}, {model!r}, here.Path({str(killed)!r}))"
    assert called(__file__, call) == -signal.SIGKILL
    assert not list((killed / "runs").rglob("summary.json"))
    there = len(list((killed / "cache" / "samples").glob("??/*")))

    asked: list[int] = []
    draw = LanguageModelPolicy.draw

    def counted(self, wanted):
        asked.extend(number for each in wanted for number in each.numbers)
        return draw(self, wanted)

    monkeypatch.setattr(LanguageModelPolicy, "draw", counted)
    again = build(model, killed)
    assert outcome(killed) == outcome(tmp_path / "whole")
    assert len(asked) == 6 - there, "the test rows have other authors; six adapt rows have none"
    assert again.rows == whole.rows
    assert sorted(path.name for path in killed.iterdir()) == [
        "cache", "lamp", "pairs.jsonl.gz", "runs",
    ]  # fmt: skip
    asked.clear()
    build(model, killed)
    assert not asked


def test_a_model_answers_where_no_other_author_wrote_and_of_both_the_rows_say_it(tiny, tmp_path):
    rows = clean(users=2, items=2)
    rows[3]["input"] += " anew"
    for row in rows:
        row["input"] = row["input"].replace("Generate a", "Write a")
    model = f"{tiny.model()}?max_tokens=4"
    result = build_own_text(
        write(tmp_path, rows), tmp_path / "p.jsonl", layout="lamp", rejected=model, adapt=1,
        root=tmp_path / "runs", settings=SETTINGS,
    )  # fmt: skip
    tests = [row for row in read(tmp_path / "p.jsonl") if row["split"] == "test"]
    assert [row["rejected_by"] for row in tests] == ["others", model, "others", model]
    assert result.rows["test"]["against_model"] == 2
    assert result.folder is not None
    assert read_manifest(result.folder).identity["policy"]
