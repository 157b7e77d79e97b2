"""palate data --split, as typed: adapt and test, no question or user in both."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import palate
from palate.benchmarks import Dataset
from palate.comparison import evaluate


def votes(path: Path) -> list[dict[str, object]]:
    rows = [
        {"id": k, "user_id": f"u{k % 6}", "question": f"Which, {k // 3}?{' ' * (k % 3)}",
         "chosen": "tea " * (k % 3 + 1), "rejected": "milk"}
        for k in range(60)
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return rows


@pytest.mark.parametrize(("by", "test"), [("question", 18), ("user", 20)])
def test_a_file_is_split_by_question_or_by_user(by: str, test: int, tmp_path: Path) -> None:
    rows = votes(tmp_path / "votes.jsonl")
    words = ("data", "votes.jsonl", "--split", "0.3", "--by", by, "-o", "parts.jsonl")
    done = palate(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"({60 - test} adapt, {test} test)" in done.stdout
    text = (tmp_path / "parts.jsonl").read_text(encoding="utf-8")
    parts = [json.loads(line) for line in text.splitlines()]
    assert [row["id"] for row in parts] == [str(row["id"]) for row in rows]
    key = "user_id" if by == "user" else "question"
    sides = [{str(row[key]).strip() for row in parts if row["split"] == it}
             for it in ("adapt", "test")]  # fmt: skip
    assert not sides[0] & sides[1]
    palate("data", "parts.jsonl", "--split", "0.3", "--by", by, "-o", "again.jsonl", cwd=tmp_path)
    assert (tmp_path / "again.jsonl").read_text(encoding="utf-8") == text


@pytest.mark.parametrize("words", [
    ("--split", "0.3"), ("--split", "1", "-o", "x.jsonl"), ("--split", "0", "-o", "x.jsonl"),
    ("--split", "0.3", "--by", "post", "-o", "x.jsonl"), ("--split", "0.99", "-o", "x.jsonl"),
])  # fmt: skip
def test_what_is_no_split_is_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    votes(tmp_path / "votes.jsonl")
    done = palate("data", "votes.jsonl", *words, cwd=tmp_path)
    assert done.returncode == 2
    assert "--split" in done.stderr
    assert not (tmp_path / "x.jsonl").exists()


def test_users_without_a_state_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    from palate.records import ScorerInfo, Scores, user_key

    class Personal:
        """Longer is better to whoever it knows."""

        state, users = "own", type("Users", (), {"place": {user_key("u0"): 0, user_key("u1"): 1}})()
        info = ScorerInfo(fingerprint="x", needs_user=True)

        def score(self, slates):  # type: ignore[no-untyped-def]
            for k, slate in enumerate(slates):
                yield k, Scores(values=tuple(float(len(it)) for it in slate.candidates))

    rows = [{"id": k, "user_id": f"u{k % 4}", "question": f"Which, {k}?", "chosen": "tea",
             "rejected": "milk"} for k in range(8)]  # fmt: skip
    run = evaluate(Dataset.from_rows("teas", rows), Personal(), "none", root=None)
    line = "2 of 4 users have no state and are scored by the prior (the first: u2)"
    assert line in run.summary.notes
    assert line in caplog.text
