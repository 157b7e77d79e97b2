"""palate build own-text as a person uses it: the screen, the warning, mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from inline_snapshot import snapshot

from command_line import palate
from palate.construction import OwnTextBuild, build_own_text
from palate.reports.construction import own_text_tables
from palate.runs import load_all


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Questions of three users about two articles; one user's headlines are long."""
    questions, golds = [], []
    for user in range(3):
        for k in range(2):
            name, words = f"{user}{k}", [f"h{user}k{k}w{j}" for j in range(5 + 4 * (user == 0))]
            article = " ".join(f"article{k}word{j}" for j in range(20))
            golds.append({"id": name, "output": " ".join(words)})
            questions.append(
                {
                    "id": name, "user_id": f"u{user}", "date": "2016-01-01",
                    "input": f"Generate a headline for the following article: {article}",
                    "profile": [
                        {"id": f"{name}a", "date": "2015-03-01", "title": f"A title of old, {name}",
                         "text": " ".join(f"old{k}word{j}" for j in range(20))},
                        {"id": f"{name}b", "date": "2016-03-01", "title": f"A later text, {name}",
                         "text": f"What user {user} read later."},
                        {"id": f"{name}c", "title": " ".join(words), "text": "A leak."},
                    ],
                }
            )  # fmt: skip
    (tmp_path / "dev_questions.json").write_text(json.dumps(questions))
    (tmp_path / "dev_outputs.json").write_text(json.dumps({"task": "LaMP_4", "golds": golds}))
    return tmp_path


def test_it_prints_yields_what_was_left_out_and_blind_scorers(folder: Path) -> None:
    done = palate("build", "own-text", ".", "--layout", "lamp", "-o", "own.jsonl", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout == snapshot("""\
own-text benchmark own

 split   rows   users   inputs   against authors   against the model
 ───────────────────────────────────────────────────────────────────
 test       6       3        2                 6                   0
 adapt      6       3        2                 6                   0

left out

 what            why                    number
 ─────────────────────────────────────────────
 profile items   not earlier                 6
 profile items   shares the reference        6

blind scorers on the test rows

 scorer        accuracy [95 %]   rows
 ────────────────────────────────────
 longest             0.333 [–]      6
 shortest            0.667 [–]      6
 style probe         0.667 [–]      6

style probe: counts of style, fitted on the other questions.
""")
    assert done.stderr == snapshot(
        "warning: blind scorers are right above 0.6 (shortest 0.667, style probe 0.667)\n"
    )
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_a_policy_that_was_never_asked_is_told(folder: Path, tiny: Any) -> None:
    how: dict[str, Any] = {"layout": "lamp", "root": None}
    build = build_own_text(folder, folder / "own.jsonl", rejected=tiny.model(), **how)
    (table, *_) = own_text_tables(build)
    assert table.notes == [f"{tiny.model()} was not used: every row has another author's text."]
    build = build_own_text(folder, folder / "others.jsonl", **how)
    (table, *_) = own_text_tables(build)
    assert table.notes == []


def test_the_file_is_evaluated_like_any_other(folder: Path) -> None:
    palate("build", "own-text", ".", "--layout", "lamp", "-o", "own.jsonl", cwd=folder)
    done = palate("evaluate", "-b", "own.jsonl", "-s", "longest", "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert {run["n_pairs"] for run in document["runs"]} == {6}
    (build,) = load_all(folder / "runs", kind="own-text")
    assert isinstance(build, OwnTextBuild)
    accuracy = document["runs"][0]["accuracy"]["value"]
    assert accuracy == build.summary.blind_scorers["longest"].value


def test_json_is_the_summary(folder: Path) -> None:
    done = palate(
        "build", "own-text", "dev_questions.json", "--layout", "lamp", "-o", "own.jsonl.gz",
        "--format", "json", cwd=folder,
    )  # fmt: skip
    (summary,) = (folder / "runs" / "own").rglob("summary.json")
    assert done.stdout == summary.read_text()


def test_a_mistake_is_one_line_and_exit_2(folder: Path) -> None:
    outputs = json.loads((folder / "dev_outputs.json").read_text())
    (folder / "dev_outputs.json").write_text(json.dumps({**outputs, "task": "LaMP_3"}))
    done = palate("build", "own-text", ".", "--layout", "lamp", "-o", "own.jsonl", cwd=folder)
    assert done.returncode == 2
    assert done.stderr == snapshot(
        "palate: dev_outputs.json: `task`: LaMP_3 asks for a label, so it holds no text of a "
        "user's; take LaMP 4, 5, 6 or 7\n"
    )
    assert not list(folder.glob("*own*"))
