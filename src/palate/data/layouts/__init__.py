"""Forms that public preference files have, recognised by their columns."""

from palate.data.layouts.layout import PAIRS, LayoutMatch, LayoutOptions
from palate.data.layouts.reading import (
    LAYOUTS,
    Understood,
    layout_lines,
    understand,
)
from palate.data.layouts.votes import parse_votes

__all__ = [
    "LAYOUTS",
    "PAIRS",
    "LayoutMatch",
    "LayoutOptions",
    "Understood",
    "layout_lines",
    "parse_votes",
    "understand",
]
