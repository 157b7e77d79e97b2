"""`--since`, `--until` and `--by month`, as a person types them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import Palate, write_rows


def row(k: int, date: str | None, **more: Any) -> dict[str, Any]:
    return {"id": f"r{k}", "user_id": f"u{k % 4}", "question": f"Which tea, {k}?",
            "chosen": f"Green, {k}." + k % 2 * " Hot.", "rejected": f"Black tea, {k}.",
            "date": date, **more}  # fmt: skip


@pytest.fixture
def file(tmp_path: Path) -> Path:
    rows = (row(k, f"2026-0{1 + k // 10}-15") for k in range(30))
    return write_rows(tmp_path / "votes.jsonl", rows)


LONGEST = ("-s", "longest", "-c", "none")


def test_rows_of_some_days_are_evaluated_by_month(
    palate: Palate, file: Path, tmp_path: Path
) -> None:
    words = ("evaluate", "-b", file, *LONGEST, "--since", "2026-02", "--by", "month")
    code, printed, errors = palate(*words, "--format", "json")
    assert code == 0, errors
    document = json.loads(printed)
    (report,) = document["groups"]
    assert [(each["name"], each["n_pairs"]) for each in report["groups"]] == [
        ("2026-02", 10),
        ("2026-03", 10),
    ]
    until = ("--until", "2026-03-01", "--details", "-o", "february")
    code, printed, _ = palate(*words, *until)
    assert code == 0
    assert "2026-02" in printed
    assert "2026-03" not in printed
    code, _, errors = palate("report", "february", "-o", "page.html")
    assert code == 0, errors
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "--since 2026-02-01 --until 2026-03-01" in page
    code, _, errors = palate("compare", "runs", "february")
    assert code == 2
    assert "--since 2026-02-01 under" in errors
    assert "--since 2026-02-01 --until 2026-03-01 under" in errors


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--since", "9/30/2017"), "--since 9/30/2017: no day that can be read; write it as 2026-"),
        (("--until", "2026-02-30"), "--until 2026-02-30: no day that can be read"),
        (("--since", "2026-03", "--until", "2026-02"), "the first day is to be before the last"),
        (("--since", "2027"), "votes: --since 2027-01-01: no row is within (rows are of 2026"),
        (("--since", "2026", "--order-as-in-file"), "no date is read with --order-as-in-file"),
        (("--by", "month", "--order-as-in-file"), "votes has no dates, so there is no --by month"),
        (("--by", "week"), "--by week: write subset, category, month, user or trait:NAME"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    palate: Palate, file: Path, words: tuple[str, ...], says: str
) -> None:
    code, _, errors = palate("evaluate", "-b", file, *LONGEST, *words)
    assert code == 2
    assert says in errors
    assert "Traceback" not in errors


def test_rows_without_dates_are_counted(palate: Palate, tmp_path: Path) -> None:
    some = write_rows(tmp_path / "some.jsonl", (row(k, "2026" if k else None) for k in range(5)))
    code, _, errors = palate("evaluate", "-b", some, *LONGEST, "--since", "2025")
    assert code == 2
    assert "some: --since 2025-01-01: 1 of 5 rows have no date, the first is 'r0'" in errors
    code, printed, _ = palate(
        "evaluate", "-b", some, *LONGEST, "--by", "month", "--format", "json"
    )  # fmt: skip
    assert code == 0
    assert json.loads(printed)["groups"][0]["n_unlabelled"] == 1


def test_a_row_whose_mirror_row_is_of_another_day_is_told(palate: Palate, tmp_path: Path) -> None:
    def couple(k: int, other: int, date: str) -> dict[str, Any]:
        texts = ("Green.", "Black tea.")[:: 1 if k < other else -1]
        return row(k, date, mirror_of=f"r{other}", question=f"Which, {min(k, other)}?",
                   chosen=texts[0], rejected=texts[1])  # fmt: skip

    days = ("2026-01-01", "2026-01-02", "2026-01-02", "2026-03-01")
    rows = [couple(k, k ^ 1, day) for k, day in enumerate(days)]
    mirrored = write_rows(tmp_path / "mirrored.jsonl", rows)
    code, _, errors = palate("evaluate", "-b", mirrored, *LONGEST, "--until", "2026-02")
    assert code == 0
    assert "mirrored: left out: 1 row whose mirror row is of another day" in errors


def test_choices_of_another_file_are_those_before_the_end(
    palate: Palate, file: Path, tmp_path: Path
) -> None:
    past = write_rows(
        tmp_path / "past.jsonl",
        (
            row(100 + k, f"2026-0{1 + k // 4}-01", question=f"Once, {k}?", chosen=f"Chose {k}.")
            for k in range(12)
        ),
    )
    words = ("evaluate", "-b", file, "-s", "longest", "-c", "examples:9", "--choices", past)
    code, printed, errors = palate(
        *words, "--since", "2026-02", "--until", "2026-02-20", "--dry-run"
    )
    assert code == 0, errors
    assert "10 rows" in printed
    assert [f"Chose {k}." in printed for k in (2, 6, 10)] == [True, True, False]
    code, _, errors = palate(*words, "--since", "2025", "--until", "2026-01-01")
    assert code == 2
    assert "past: --until 2026-01-01: no row is within" in errors  # choices are read first


def test_data_says_which_days_and_writes_those_of_some(
    palate: Palate, file: Path, tmp_path: Path
) -> None:
    code, printed, _ = palate("data", file)
    assert code == 0
    assert "dated            30 rows, 2026-01-15 to 2026-03-15" in printed
    code, _, _ = palate("data", file, "--until", "2026-02-01", "-o", "january.jsonl")
    lines = (tmp_path / "january.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["date"] for line in lines] == ["2026-01-15"] * 10


def test_states_are_learnt_until_a_day(palate: Palate, file: Path) -> None:
    words = ("--data", file, "--embedder", "style", "--until", "2026-02-01")
    code, printed, errors = palate("train", "bradley-terry", *words, "-o", "model")
    assert code == 0, errors
    assert "bradley-terry from 10 choices of 4 users" in printed
    code, printed, errors = palate(
        "adapt", "model", "--choices", file, "--until", "2025", "-o", "states.safetensors"
    )
    assert code == 2
    assert "votes: --until 2025-01-01: no row is within" in errors
