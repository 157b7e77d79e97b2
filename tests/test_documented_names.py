"""Every dotted name of palate that the documentation writes is there."""

import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    page
    for page in (
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *sorted((ROOT / "docs").glob("*.md")),
    )
    if page.name != "decisions.md"  # it tells of names that were
]
NAME = re.compile(r'(?<![\w/."-])palate(?:\.[A-Za-z_]\w*)+')
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
NO_OBJECTS = {*PROJECT["entry-points"], "palate.json", "palate.toml"}


def is_there(name: str) -> bool:
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found: object = import_module(".".join(parts[:k]))
        except ImportError:
            continue
        for part in parts[k:]:
            found = getattr(found, part, None)
        return found is not None
    return False


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_name_of_palate_on_a_page_is_there(page: Path) -> None:
    names = {*NAME.findall(page.read_text(encoding="utf-8"))} - NO_OBJECTS
    assert not sorted(name for name in names if not is_there(name))


def test_a_name_that_moved_is_noticed() -> None:
    assert is_there("palate.answers.Samples")
    assert not is_there("palate.uses.Samples")
    assert not is_there("palate.downstream.quality")
