"""`--noise-rows` and `--ask-again` on the command line."""

import json

import pytest
from typer.testing import CliRunner

from command_line import write_rows
from endpoints import Loopback
from palate.cli import app


@pytest.fixture
def votes(tmp_path):
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"{k}?", "chosen": "a", "rejected": "bb"}
        for k in range(8)
    ]
    return write_rows(tmp_path / "votes.jsonl", rows)


def run(*words):
    return CliRunner().invoke(app, ["evaluate", *map(str, words)], env={"COLUMNS": "200"})


def test_the_options_are_told_where_they_belong():
    text = " ".join(run("--help-all").output.split())
    assert "--noise-rows" in text and "16 or 2 %, whichever is more" in text
    assert "--ask-again" in text and "ask endpoints for once more" in text


def test_an_endpoint_is_asked_again_and_the_document_says_it(tmp_path, votes):
    asked = []

    def answer(path, body):
        asked.append(body)
        choice = {"message": {"content": f"Rating: {1 + len(asked) % 9}"}, "finish_reason": "stop"}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 150, "completion_tokens": 2}}

    with Loopback(answer) as server:
        scorer = f"rating:api:m?base_url={server.url}/v1&concurrency=1"
        words = ("-b", votes, "-s", scorer, "-o", tmp_path / "runs", "--format", "json")
        told = run(*words, "--ask-again", "0.5")
    assert told.exit_code == 0, told.output
    (summary,) = json.loads(told.stdout)["runs"]
    assert summary["noise"]["kind"] == "asking again" and summary["noise"]["rows"] == 4
    assert len(asked) == 16 + 8


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--ask-again", "0.1"), "--ask-again 0.1: no scorer here asks an endpoint"),
        (("--ask-again", "nan"), "--ask-again nan: expected a finite number"),
        (("--ask-again", "-1"), "--ask-again -1: expected a share of the rows, 0 to 1"),
        (("--noise-rows", "-1"), "--noise-rows"),
        (("--noise-rows", "many"), "--noise-rows"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, votes, words, message):
    told = run("-b", votes, "-s", "longest", "-o", tmp_path, *words)
    # A refusal of typer's is printed; one of palate's is raised, and printed by main().
    assert getattr(told.exception, "exit_code", None) == 2 or told.exit_code == 2
    assert message in f"{told.output} {told.exception}"
