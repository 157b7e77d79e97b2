"""Options in files, the help of every command, and names that are not used any more."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from command_line import run
from palate.cli import app
from palate.cli.lazy import MOST_SHOWN
from palate.errors import UsageError
from palate.runs import load_all

HELP = Path(__file__).with_name("help.txt")
UPDATE = "UPDATE_HELP" in os.environ


def help_of(name: str) -> list[str]:
    words = [*name.split(), "--help"]
    done = CliRunner().invoke(app, words, env={"COLUMNS": "80"}, color=False)
    return done.output.splitlines()


def names(group: Any = None, of: str = "") -> list[str]:
    listed: list[str] = []
    for name, command in (group or get_command(app)).commands.items():
        below = command.load()
        inside = hasattr(below, "commands")
        listed += names(below, f"{of}{name} ") if inside else [f"{of}{name}"]
    return listed


def test_the_help_of_every_command_is_as_it_was_read_last() -> None:
    # UPDATE_HELP=1 writes it anew: read the difference.
    pages = []
    for name in names():
        lines = [line.rstrip() for line in help_of(name)]
        assert max(map(len, lines)) <= 80, name
        pages.append(f"$ palate {name} --help\n" + "\n".join(lines).strip("\n"))
    text = "\n\n".join(pages) + "\n"
    if UPDATE:
        HELP.write_text(text, encoding="utf-8")
    assert text == HELP.read_text(encoding="utf-8"), "UPDATE_HELP=1 writes tests/cli/help.txt anew"


@pytest.mark.parametrize("name", names())
def test_no_help_shows_more_options_than_a_screen_holds(name: str) -> None:
    shown = [line for line in help_of(name) if line.startswith("│")]
    options = [line for line in shown if line.lstrip("│ *").startswith("-")]
    assert 0 < len(options) <= MOST_SHOWN


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_help_of_ppo_fits_60_lines_and_all_of_it_can_be_asked_for() -> None:
    assert len(run("ppo", "--help").splitlines()) <= 60
    assert "--gae-lambda" not in run("ppo", "--help")
    assert "--gae-lambda" in run("ppo", "--help-all")


def test_the_command_line_counts_before_the_recipe_and_that_before_the_usual(here: Path) -> None:
    usual = '[evaluate]\nbenchmark = "tasting"\nscorer = ["longest"]\nlimit = 4\nseed = 3\n'
    (here / "palate.toml").write_text(usual)
    (here / "mine.toml").write_text('context = ["none"]\nlimit = 6\n')
    run("evaluate", "--recipe", "mine.toml", "--seed", "5")
    (made,) = load_all(here / "runs")
    assert (made.summary.scorer, made.summary.context) == ("longest", "none")
    assert made.summary.n_pairs == 2 * 6  # couples
    run("evaluate", "--recipe=mine.toml", "--seed", "5", "--limit", "8", "-o", "others")
    (other,) = load_all(here / "others")
    assert other.summary.n_pairs == 2 * 8


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("palate.toml", "[evalute]\nseed = 1", "palate.toml: no command 'evalute'; did you mean"),
        ("palate.toml", '["export rewardbench"]\n', "palate.toml: no command 'export rewardbench'"),
        ("palate.toml", "evaluate = 3", "palate.toml: expected a table of options by command"),
        ("palate.toml", "[evaluate]\nscorr = 1", "palate.toml: no option 'scorr'; did you mean sc"),
        ("r.toml", "sed = 1", "r.toml: no option 'sed'; did you mean seed?"),
        ("r.toml", "seed = [1, 2]", "r.toml: seed: expected one value"),
        ("r.toml", "seed = ", "r.toml: no readable TOML"),
        (None, "", "r.toml: no readable TOML"),
    ],
)
def test_a_file_that_is_wrong_is_one_line(
    here: Path, file: str | None, text: str, message: str
) -> None:
    if file is not None:
        (here / file).write_text(text)
    recipe = [] if file == "palate.toml" else ["--recipe", "r.toml"]
    with pytest.raises(UsageError) as refused:
        run("evaluate", "-b", "tasting", "-s", "longest", *recipe)
    assert str(refused.value).startswith(message)
    assert "\n" not in str(refused.value)


def test_a_command_of_a_group_has_its_table(here: Path) -> None:
    (here / "palate.toml").write_text("[train.lore]\nembeder = 'style'\n")
    with pytest.raises(UsageError, match=r"no option 'embeder'; did you mean embedder\?"):
        run("train", "lore", "--data", "tasting", "-o", "models/lore")
    (here / "palate.toml").write_text("[train.lore]\nembedder = 'style'\n")
    assert "lore from 96 choices" in run("train", "lore", "--data", "tasting", "-o", "models/lore")


def test_a_command_of_two_words_has_its_table_and_is_no_option_of_the_first(here: Path) -> None:
    (here / "palate.toml").write_text(
        "[export]\npolicy = 'p'\n[export.rewardbench]\ncontxt = 'none'\n"
    )
    with pytest.raises(UsageError, match=r"no option 'contxt'; did you mean context\?"):
        run("export", "rewardbench", "-b", "tasting", "-o", "pairs.jsonl")
    with pytest.raises(UsageError, match="'nowhere'"):
        run("export", "--to", "trl", "-b", "nowhere", "-s", "longest", "-o", "folder")
