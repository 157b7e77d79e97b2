"""Questions alone at the command line: best-of-n takes them, what needs a choice does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from command_line import palate, write_rows

QUESTIONS = [
    {"id": "1", "question": "Which tea?", "reference": "strong Assam"},
    {"id": "2", "question": "Which boat?", "reference": "a wooden dinghy",
     "responses": ["A dinghy.", "A yacht.", "None."]},
]  # fmt: skip
SAMPLES = [
    {"id": "1", "samples": ["Assam.", "Mint tea, now and then."]},
    {"id": "2", "samples": ["A dinghy of wood.", "None."]},
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in (("questions", QUESTIONS), ("samples", SAMPLES)):
        write_rows(tmp_path / f"{name}.jsonl", rows)
    return tmp_path


def test_best_of_n_takes_questions(folder: Path) -> None:
    done = palate(
        "best-of-n", "-b", "./questions.jsonl", "--samples", "samples.jsonl",
        "-s", "longest", "-q", "overlap:chrf", "--format", "json", cwd=folder,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (longest,) = json.loads(done.stdout)["cells"]
    assert longest["curve"]["points"][-1]["best"]["n"] == 2


@pytest.mark.parametrize(
    "words",
    [
        ("evaluate", "-b", "./questions.jsonl", "-s", "longest"),
        ("evaluate", "-b", "tasting", "--choices", "./questions.jsonl", "-s", "longest"),
        ("train", "bradley-terry", "--data", "./questions.jsonl", "--embedder", "style", "-o", "m"),
    ],
)
def test_what_needs_a_choice_refuses_questions_in_one_line(folder: Path, words) -> None:  # type: ignore[no-untyped-def]
    done = palate(*words, cwd=folder)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "row '1' has no `chosen` and `rejected`" in done.stderr


def test_a_judge_with_one_answer_is_refused_in_one_line(folder: Path) -> None:
    done = palate(
        "best-of-n", "-b", "./questions.jsonl", "--samples", "samples.jsonl", "-n", "1",
        "-s", "judge:api:m?base_url=http://127.0.0.1:9/v1", "-q", "overlap:chrf", cwd=folder,
    )  # fmt: skip
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "a judge compares two answers; draw more than one (-n)" in done.stderr
