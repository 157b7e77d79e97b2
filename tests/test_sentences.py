"""Pages are read easily: no page has more than a fifth of long sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
LONG = 25
"""Words of a sentence."""
SHARE = 0.2


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a page's prose, without code, tables and headings."""
    text = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    prose = [line for line in text.splitlines() if not line.startswith(("|", "#", "!["))]
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", "\n".join(prose))
    text = re.sub(r"`[^`]*`", "code", text)
    for paragraph in re.split(r"\n\s*\n|\n(?=[-*] )", text):
        flat = " ".join(paragraph.split())
        yield from filter(None, re.split(r"(?<=[.!?:])\s+(?=[A-Zc*«“(])", flat))


def words(sentence: str) -> int:
    return len(re.findall(r"[\w’'–-]+", sentence))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_few_sentences_are_long(page: Path) -> None:
    counts = [words(each) for each in sentences(page.read_text(encoding="utf-8"))]
    counts = [count for count in counts if count > 2]
    long = sum(count > LONG for count in counts)
    assert long <= SHARE * max(len(counts), 10), f"{long} of {len(counts)} sentences"


def test_a_sentence_is_counted_without_code_and_tables() -> None:
    page = (
        "# Head\n\nOne two `a b c d` three. Four [five](six.md).\n\n| a | b |\n\n```\ncode\n```\n"
    )
    assert [words(each) for each in sentences(page)] == [4, 2]
