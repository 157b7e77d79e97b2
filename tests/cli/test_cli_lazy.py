"""Commands are listed without being imported, by the lines that their own help begins with."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from typing import Any

import pytest
import typer
from typer.main import get_command

from palate.cli import app
from palate.cli.app import COMMANDS
from palate.cli.declare import FLAGS, command_of
from palate.errors import UsageError
from palate.specs import registered
from test_public import HEAVY

GROUP: Any = get_command(app)
BUILD, TRAIN = (GROUP.commands[name].load() for name in ("build", "train"))
LISTED = [one for group in (GROUP, BUILD, TRAIN) for one in group.commands.values()]


@pytest.mark.parametrize("listed", LISTED, ids=lambda listed: listed.name)
def test_the_line_of_a_command_is_the_beginning_of_its_help(listed: Any) -> None:
    first = inspect.cleandoc(listed.load().help).split("\n\n")[0]
    assert listed.help == " ".join(first.split())
    assert (listed.hidden, listed.params) == (False, [])


def test_every_command_is_listed_once_in_order() -> None:
    assert GROUP.list_commands(None) == list(COMMANDS)
    methods = list(registered("palate.methods"))
    assert TRAIN.list_commands(None) == [
        "classifier",
        "autoregressive",
        "planner",
        *methods,
        "p-dpo",
    ]


@pytest.mark.parametrize(
    ("words", "typed", "says"),
    [
        ("", "", "Usage: "),
        ("--help", "", "learning-curve"),
        ("--version", "", "palate 0"),
        ("nope", "", "No such command 'nope'"),
        ("train --help", "", "user-heads"),
        ("", "palate ev", "evaluate"),
        ("", "palate train lo", "lore"),
        ("", "palate evaluate -b ta", "tasting"),
        ("", "palate evaluate -b tasting --scorer lo", "longest"),
        ("", "palate show -s judge:x --dtype float32 -c str", "stranger"),
    ],
)
def test_what_runs_no_command_loads_no_heavy_library(words: str, typed: str, says: str) -> None:
    # typer reads the values of options by pydantic; help has no values.
    heavy = [
        name for name in HEAVY if name != "pydantic" or (words in {"", "--help"} and not typed)
    ]
    code = (
        "import atexit, sys\n"
        f"atexit.register(lambda: print([m for m in {heavy} if m in sys.modules]))\n"
        f"sys.argv = ['palate', *{words.split()}]\n"
        "from palate.cli import main; main()"
    )
    tab = {
        "_PALATE_COMPLETE": "complete_bash", "COMP_WORDS": typed,
        "COMP_CWORD": str(len(typed.split()) - 1),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code], text=True, capture_output=True, timeout=120, check=False,
        env={**os.environ, "NO_COLOR": "1", **(tab if typed else {})},
    )  # fmt: skip
    assert says in done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "[]"


def test_options_whose_values_are_names_are_the_same_in_every_command() -> None:
    commands = [listed.load() for listed in LISTED]
    for group, flags in FLAGS.items():
        taking = [
            each for command in commands for each in command.params if {*flags} & {*each.opts}
        ]
        assert len(taking) >= 2
        for option in [*taking, *command_of(flags[0]).params[:1]]:
            assert tuple(option.opts) == flags
            offered = option.shell_complete(typer.Context(GROUP), "")
            assert [each.value for each in offered] == list(registered(group))
    assert command_of("--dtype") is None


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["export", "rewardbnch", "-b", "tasting"], "export rewardbnch: no command"),
        (["export", "verl"], "export verl: no command"),
    ],
)
def test_a_second_word_that_is_no_command_is_named(words: list[str], line: str) -> None:
    with pytest.raises(UsageError, match=line):
        get_command(app).main(words, standalone_mode=False)
