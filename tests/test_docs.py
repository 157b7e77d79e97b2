"""Pages are readable, lead where they say, and are all in the index."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import palate.errors
from prose import MOST_LONG, ROOT, long_share, pages, sentences

PAGES = [*pages(), *sorted((ROOT / "studies").glob("*/README.md"))]
INDEX = ROOT / "docs" / "README.md"
MOST_OF_DECISIONS = 4000


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_few_sentences_of_a_page_are_long(page: Path) -> None:
    name = page.relative_to(ROOT)
    assert long_share(page) <= MOST_LONG, f"shorten sentences: python tests/prose.py {name}"


def test_sentences_are_counted_as_they_are_read() -> None:
    text = (
        "# A heading\n\nOne line\ngoes on. See [a page](a.md), `code with words`.\n\n"
        "| a | table |\n\n```console\n$ palate list. No.\n```\n- An item\n- Another. And more\n"
    )
    assert sentences(text) == [
        "One line goes on.",
        "See a page, `code`.",
        "An item",
        "Another.",
        "And more",
    ]


def test_a_page_of_long_sentences_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Short. " * 3 + f"{'Long ' * 26}end.\n", encoding="utf-8")
    assert long_share(page) == 0.25


def anchors(page: Path) -> set[str]:
    """Return the names that a page's headings have in links."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.S | re.M)
    heads = re.findall(r"^#+ (.+)$", text, flags=re.M)
    plain = (re.sub(r"\]\([^)]*\)|[^\w\- ]", "", head.lower()) for head in heads)
    return {head.replace(" ", "-") for head in plain}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_to_a_page_and_a_heading(page: Path) -> None:
    for file, anchor in re.findall(r"\]\(([\w./-]*)(?:#([^)]+))?\)", page.read_text("utf-8")):
        target = (page.parent / file).resolve() if file else page
        assert target.exists(), file
        assert not anchor or anchor in anchors(target), f"{file}#{anchor}"


def test_the_index_names_every_page() -> None:
    text = INDEX.read_text(encoding="utf-8")
    listed = {(INDEX.parent / link).resolve() for link in re.findall(r"\]\(([\w./-]+)\)", text)}
    assert {*(ROOT / "docs").glob("*.md")} - {INDEX} <= listed


def test_decisions_are_dated_and_few() -> None:
    text = (ROOT / "docs" / "decisions.md").read_text(encoding="utf-8")
    items = re.findall(r"^\*\*.*$", text, flags=re.M)
    assert len(text.split()) <= MOST_OF_DECISIONS
    dates = r"\(\d{4}-\d\d-\d\d(, \d{4}-\d\d-\d\d)*\)"
    assert all(re.match(rf"\*\*[^*]+\*\* {dates}\. \S", item) for item in items)
    assert len(items) > 50


def test_every_error_stands_on_its_page() -> None:
    text = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    raised = [
        thing
        for thing in vars(palate.errors).values()
        if isinstance(thing, type) and issubclass(thing, palate.PalateError)
    ]
    parts = {int(part[0]): part for part in text.split("## Exit code ")[1:]}
    for error in raised:
        if error not in (palate.PalateError, palate.errors.OutsideError):
            assert f"`{error.__name__}`" in parts[error.exit_code].replace("palate.errors.", "")
