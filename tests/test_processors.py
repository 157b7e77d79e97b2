"""`tools/processors.py`: which lines of the demo it compares, and that it notices another one."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from processors import PROCESSORS, ROOT, demo_block, differences, lines_of, rows_of, side_by_side

SCREEN = """first page: demo.html ({seconds} s, 35 s of it setting up)

 scorer           gain       p  finding
 ──────────────────────────────────────
 lift           +0.115   0.215  {word}
 random, longest  +0.000     –  blind

yes: identity gain above 0.
"""


def screens(*outputs: str) -> dict[str, list[str]]:
    return {name: lines_of(output) for name, output in zip(PROCESSORS, outputs, strict=False)}


def test_times_differ_and_nothing_else() -> None:
    shown = [SCREEN.format(seconds=k, word="not shown") for k in (52, 70)]
    assert list(differences(screens(*shown))) == []
    other = screens(shown[0], SCREEN.format(seconds=52, word="yes"))
    assert list(differences(other)) == [
        "AVX-512 alone:  lift           +0.115   0.215  yes",
        "as it is, not AVX-512:  lift           +0.115   0.215  not shown",
    ]


def test_the_rows_of_a_scorer_stand_one_below_another() -> None:
    shown = screens(*(SCREEN.format(seconds=1, word=word) for word in ("not shown", "yes")))
    assert rows_of(shown["AVX-512"])["random, longest"] == "+0.000     –  blind"
    assert list(side_by_side(shown))[:3] == [
        "lift",
        "  as it is  +0.115   0.215  not shown",
        "  AVX-512   +0.115   0.215  yes",
    ]


def test_the_tutorial_shows_what_is_compared() -> None:
    block = demo_block((ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8"))
    assert "the page again, with the language model" in block
    assert {"similarity", "lift", "likelihood"} <= set(rows_of(block.splitlines()))
