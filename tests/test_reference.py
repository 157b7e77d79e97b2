"""The references of commands and of Python are those of the program, and leave nothing out."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import palate
from palate.cli import app

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from reference import command_page, commands, python_page

PAGES = {"commands.md": command_page, "python.md": python_page}


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_up_to_date(name: str) -> None:
    published = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert published == PAGES[name](), "run python tools/reference.py"


def test_every_option_of_every_command_is_described_or_named() -> None:
    page = command_page()
    shared = page[page.index("## Shared options") :]
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    listed = list(commands(get_command(app)))
    assert len(listed) > len(get_command(app).commands)  # those of groups are there too
    for command in listed:
        *group, last = command.name.split()
        (section,) = (
            text
            for text in sections
            if f"`{last}`" in (head := text.splitlines()[0]) and " ".join(group) in head
            or f"`{command.name}`" in text.splitlines()[0]
        )  # fmt: skip
        for option in command.options:
            named = re.findall(r"--[a-z-]+", option.name) or [option.name]
            assert option.row() in section or (
                f"`{named[-1]}`" in section and option.row() in shared
            ), (command.name, option.name)


def test_every_public_name_has_a_section() -> None:
    heads = re.findall(r"^### (\w+)$", python_page(), flags=re.MULTILINE)
    assert sorted(heads) == palate.__all__


def test_an_example_in_a_docstring_is_a_block_and_errors_are_a_list() -> None:
    section = python_page().split("\n### best_of_n\n")[1].split("\n### ")[0]
    assert "\n- `UsageError`: " in section
    assert "```pycon\n>>> best_of_n(" in section
