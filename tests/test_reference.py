"""The references of commands and of Python are those of the program, and leave nothing out."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import palate
from palate.cli import app

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from reference import command_page, commands, python_page

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    """Return both pages; to write them imports every command."""
    return {"commands.md": command_page(), "python.md": python_page()}


def anchor_of(head: str) -> str:
    return re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-")


@pytest.mark.parametrize("name", ["commands.md", "python.md"])
def test_the_reference_is_up_to_date(name: str, written: dict[str, str]) -> None:
    published = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert published == written[name], "run python tools/reference.py"


def test_every_option_of_every_command_is_described_or_named(written: dict[str, str]) -> None:
    page = written["commands.md"]
    parts = {anchor_of(part.splitlines()[0]): part for part in page.split("\n## ")}
    index = dict(re.findall(r"\[`([^`]+)`\]\(#([^)]+)\)", page))
    listed = list(commands(get_command(app)))
    assert {command.name for command in listed} == {*index}
    for command in listed:
        for option in command.options:
            flag = (re.findall(r"--[a-z-]+", option.name) or [option.name])[-1]
            described = option.row() in parts[index[command.name]]
            shared = option.row() in parts["shared-options"]
            named = f"`{flag}`" in parts[index[command.name]]
            assert described or (named and shared), (command.name, option.name)


def test_every_public_name_has_a_section(written: dict[str, str]) -> None:
    heads = re.findall(r"^### (\w+)$", written["python.md"], flags=re.MULTILINE)
    assert sorted(heads) == palate.__all__


def test_an_example_in_a_docstring_is_a_block_and_errors_are_a_list(
    written: dict[str, str],
) -> None:
    section = written["python.md"].split("\n### best_of_n\n")[1].split("\n### ")[0]
    assert "\n- `UsageError`: " in section
    assert "```pycon\n>>> best_of_n(" in section
