"""Contrast of text and of drawings on the light and on the dark page, computed from the styles."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from palate import reports
from palate.html import colours
from palate.reports.parts import BLUE, COLOURS, INK, MUTED, THEME
from palate.reports.plots import MARKS, line_style

PAGE = Path(reports.__file__).parent / "templates" / "page.css"
CSS = f"{colours()}\n{PAGE.read_text(encoding='utf-8')}"
LIGHT, DARK, PRINT = (
    dict(re.findall(r"--([a-z-]+):\s*(#[0-9a-f]{3,6});", block))
    for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
)


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
              for part in parts]  # fmt: skip
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(first: str, second: str) -> float:
    """Of WCAG 2.

    >>> contrast("#ffffff", "#000000")
    21.0
    """
    high, low = sorted((luminance(first), luminance(second)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK, {**LIGHT, **PRINT}], ids=["light", "dark", "print"])
def test_text_has_four_and_a_half_to_one_and_drawings_three(theme):
    for ground in ("paper", "wash", "hit"):
        for text in ("ink", "muted", "accent", "warm-text"):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
    for mark in ("series", "warm", "blue"):
        assert contrast(theme[mark], theme["paper"]) >= 3, mark
    for colour in COLOURS:
        drawn = theme[THEME[colour]] if colour in THEME else colour
        assert contrast(drawn, theme["paper"]) >= 3, colour


def test_files_are_drawn_for_white_paper():
    assert all(contrast(colour, "#ffffff") >= 3 for colour in (*COLOURS, INK, MUTED))
    assert LIGHT["blue"] == BLUE


def test_series_differ_by_shape_too():
    assert len({(mark.marker, mark.filled) for mark in MARKS}) == len(MARKS)
    styles = [line_style(k) for k in range(16)]
    assert len({(style["marker"], str(style["ls"])) for style in styles}) == 16
