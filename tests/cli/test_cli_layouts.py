"""Every command that shows texts of a file reads it as evaluate did."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from rich.cells import cell_len

from command_line import run

VOTES = [
    ("question", "response_a", "response_b", "winner", "annotator"),
    *((f"Which tea on day {day}?", "Assam, smoked.", "Sencha, brewed briefly.", "1", "ann")
      for day in range(4)),
]  # fmt: skip
READ = ["--vote", "1=second", "--vote", "0=first"]


@pytest.fixture
def votes(tmp_path: Path) -> list[str]:
    """Votes of one user whose posts lie in a second file, with the options that read them."""
    for name, rows in (
        ("votes.csv", VOTES),
        ("posts.csv", [("user_id", "text"), ("ann", "Green tea calms me.")]),
    ):
        with (tmp_path / name).open("w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(rows)
    return ["-b", str(tmp_path / "votes.csv"), "--posts", str(tmp_path / "posts.csv"), *READ]


def test_show_reads_votes_and_posts_as_evaluate_does(votes: list[str]) -> None:
    shown = run("show", *votes, "-s", "longest", "-c", "profile:1")
    assert "Green tea calms me." in shown and "response 0: Sencha" in shown


def test_the_page_shows_the_texts_of_votes_that_options_explain(
    votes: list[str], tmp_path: Path
) -> None:
    run("evaluate", *votes, "-s", "longest", "-s", "random", "-o", tmp_path / "runs")
    page = tmp_path / "page.html"
    run("report", tmp_path / "runs", "-o", page, "--texts", *votes)
    assert "Sencha, brewed briefly." in page.read_text(encoding="utf-8")


def test_a_vote_that_is_explained_is_read(votes: list[str], tmp_path: Path) -> None:
    assert "chosen      Sencha, brewed briefly." in run("data", votes[1], *READ)


def test_a_file_of_another_split_is_described_all_the_same(tmp_path: Path) -> None:
    row = '{"question": "Tea?", "chosen": "Green.", "rejected": "Black.", "split": "train"}\n'
    (tmp_path / "train.jsonl").write_text(row, encoding="utf-8")
    described = run("data", tmp_path / "train.jsonl")
    assert "rejected    Black." in described
    assert "Evaluation would stop: train has no split 'test' (splits: train;" in described


def test_wide_letters_fit_the_lines_of_palate_data(tmp_path: Path) -> None:
    long = "我每天早上都喝一杯热的红茶，然后看书。" * 6
    file = tmp_path / "wide.jsonl"
    row = {"id": 1, "question": long, "chosen": "ดื่มน้ำชา" * 30, "rejected": "一\u0007"}
    file.write_text(json.dumps(row), encoding="utf-8")
    printed = run("data", file)
    lines = printed.splitlines()
    assert max(map(cell_len, lines)) <= 100
    assert long in "".join(line.strip() for line in lines).replace("question  ", "")
    assert "一\ufffd" in printed
