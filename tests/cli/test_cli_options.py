"""Options records: few parameters for the code, flat options for who types."""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, get_args, get_origin

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

import command_line
from palate.cli import app, main
from palate.cli.declare import flattened, option
from palate.cli.options import RowReading
from palate.errors import UsageError

MOST = 10
WORDS = {"to": "trl", "raters": "3"}
"""What required options are given that do not take any word."""


def commands(group: Any = None, of: str = "") -> Iterator[tuple[str, Any]]:
    for name, listed in (group or get_command(app)).commands.items():
        command = listed.load()
        if hasattr(command, "commands"):
            yield from commands(command, f"{of}{name} ")
        else:
            yield f"{of}{name}", command


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_has_more_than_ten_parameters(name):
    function = COMMANDS[name].callback
    assert len(inspect.signature(inspect.unwrap(function)).parameters) <= MOST, name


def floats_in(hint: Any) -> int:
    """Return how many words an option of this type takes, if they are floats; else 0."""
    inner = [one for one in get_args(hint) if one is not type(None)]
    if get_origin(hint) is tuple:
        return len(inner) if inner[0] is float else 0
    return int(hint is float) or max(map(floats_in, inner), default=0)


FLOATS = [
    (name, option.opts[0], words)
    for name, command in COMMANDS.items()
    for option in command.params
    if (words := floats_in(inspect.signature(command.callback).parameters[option.name].annotation))
]


def test_the_walk_finds_floats_of_every_kind():
    assert {
        ("ppo", "--gae-lambda", 1), ("ppo", "--kl-target", 1), ("decode", "--weight", 1),
        ("export", "--scale", 2), ("evaluate", "--max-cost", 1),
    } <= set(FLOATS)  # fmt: skip
    assert len(FLOATS) > 40


@pytest.mark.parametrize("value", ["nan", "-inf", "1e999"])
@pytest.mark.parametrize(("name", "flag", "words"), FLOATS)
def test_what_is_not_finite_is_one_line_and_exit_2(name, flag, words, value, monkeypatch, capsys):
    given = [
        word
        for param in COMMANDS[name].params if param.required
        for word in (param.opts[0], WORDS.get(param.name, "x"))[
            param.param_type_name == "argument" :
        ]
    ]  # fmt: skip
    numbers = [*["1"] * (words - 1), value]
    monkeypatch.setattr(sys, "argv", ["palate", *name.split(), *given, flag, *numbers])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr()
    assert (ended.value.code, said.out) == (2, "")
    (line,) = said.err.splitlines()
    assert line == f"palate: {flag} {float(value)}: expected a finite number"


@pytest.mark.parametrize("name", COMMANDS)
def test_no_name_of_an_option_is_cut_at_80_columns(name):
    every = any(option.name == "help_all" for option in COMMANDS[name].params)
    asked = "--help-all" if every else "--help"
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*name.split(), asked]).output
    assert max(map(len, shown.splitlines())) <= 80
    words = {word for line in shown.splitlines() for word in re.split(r"[ ,│]+", line)}
    named = {
        flag for option in COMMANDS[name].params if not getattr(option, "hidden", False)
        for flag in (*option.opts, *option.secondary_opts) if flag.startswith("-")
    }  # fmt: skip
    assert named <= words


@dataclass(frozen=True)
class Drink:
    """A record with a required field, defaults, and one that is made anew."""

    what: str = option(..., "What there is.", "-w", "--what")
    sugar: int = option(1, "Lumps.")
    beside: list[str] = option(["milk"], "What else.")  # noqa: RUF009


def called(*words: str) -> Any:
    calls, table = [], typer.Typer()

    def serve(guest: str, *, drink: Drink, loud: bool = False) -> None:
        """Serve a guest."""
        calls.append((guest, drink, loud))

    table.command()(flattened(serve))
    done = CliRunner().invoke(table, list(words))
    return calls[0] if calls else done


def test_a_command_gets_the_record_of_what_was_typed():
    assert called("ann", "-w", "tea") == ("ann", Drink("tea"), False)
    words = ("ann", "--what", "tea", "--sugar", "3", "--beside", "a", "--beside", "b", "--loud")
    assert called(*words) == ("ann", Drink("tea", 3, ["a", "b"]), True)
    assert called("ann").exit_code == 2, "what has no default is required"
    shown = called("--help").output
    assert "Serve a guest." in shown and "Lumps." in shown and "default: 1" in shown


def test_two_parameters_of_one_name_are_refused():
    def serve(sugar: int, drink: Drink) -> None: ...

    with pytest.raises(TypeError, match="serve: two parameters are named sugar"):
        flattened(serve)


def test_the_options_of_loading_and_computing_do_what_they_say(tmp_path):
    rows = [
        {"id": k, "user_id": f"u{k}", "prompt": f"Which, {k}?", "chosen": "a", "rejected": "bb",
         "split": "test" if k % 2 else "other"}
        for k in range(8)
    ]  # fmt: skip
    file = command_line.write_rows(tmp_path / "mine.jsonl", [*rows, {"id": 9}])

    same = ("-b", file, "-s", "longest", "-o", tmp_path / "runs")
    run = partial(command_line.run, "evaluate", *same)
    words = ("--map", "question=prompt", "--skip-bad-rows", "--max-line", "1")
    document = json.loads(run(*words, "--limit", "2", "--seed", "5", "--format", "json"))
    assert document["runs"][0]["n_pairs"] == 2
    (manifest,) = (tmp_path / "runs").rglob("manifest.json")
    identity = json.loads(manifest.read_text())["identity"]
    assert (identity["seed"], identity["split"], identity["limit"]) == (5, "test", 2)
    assert "8 pairs" not in run(*words, "--split", "other", "--batch-tokens", "9")
    identities = [
        json.loads(path.read_text())["identity"]
        for path in (tmp_path / "runs").rglob("manifest.json")
    ]
    assert {(one["split"], one["batch_tokens"]) for one in identities} == {
        ("test", 4096), ("other", 9),
    }  # fmt: skip
    for wrong, said in (
        (("--batch-tokens", "0"), "--batch-tokens 0"),
        (("--max-cost", "-1"), "--max-cost -1"),
        (("--dtype", "int8"), "--dtype int8"),
        (("--mirrors", "all"), "--mirrors all"),
        (("--map", "x"), "--map x"),
        (("--engine", "mars"), "mars"),
    ):
        with pytest.raises(UsageError if said != "mars" else Exception, match=said):
            run(*words, *wrong)


def test_reading_alone_maps_columns():
    assert RowReading(["question=prompt"], True).options().columns == {"question": "prompt"}


def test_recipes_reach_the_models_that_are_trained(tiny, tmp_path):
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"Which, {k}?", "chosen": "a",
         "rejected": "bb", "split": "adapt", "profile": [{"id": "p", "text": "I wrote this."}],
         "rubric_aspects": [{"aspect": "Short."}]}
        for k in range(6)
    ]  # fmt: skip
    file = command_line.write_rows(tmp_path / "votes.jsonl", rows)
    words = ["--data", file, "--steps", 1, "--batch-pairs", 2, "--learning-rate", 1e-4, "--seed", 4]
    words += ["--max-length", 400, "--leave-out", "u1", "--dtype", "float32", "--device", "cpu"]

    def trained(kind: str, base: str, *more: object) -> tuple[str, dict[str, Any]]:
        given = ("--base", base, "-o", tmp_path / kind, *words, *more)
        printed = command_line.run("train", kind, *given)
        return printed, json.loads((tmp_path / kind / "palate.json").read_text())

    said, facts = trained("classifier", tiny.classifier())
    assert "on 2 of 4 pairs (0 over 400 tokens left out); loss" in said
    wanted = {"steps": 1, "batch_pairs": 2, "learning_rate": 1e-4, "max_length": 400, "seed": 4}
    assert wanted.items() <= facts.items() and facts["n_users_left_out"] == 1
    said, facts = trained(
        "planner", tiny.model(), "--rank", 3, "--posts", 2, "--disjoint-from", "tasting"
    )
    assert "on 2 of 4 rows (0 without aspects or profile and 0 over 400 tokens left out)" in said
    assert wanted.items() <= facts.items()
    assert (facts["lora"]["rank"], facts["reads"]) == (3, "profile:2")
    assert list(facts["not_in"]) == ["tasting"]
