"""Which cells there are: families by scorer, tokenizer and variant, and three families by both."""

from __future__ import annotations

from typing import NamedTuple

from cells import COLUMNS
from families import FAMILIES
from variants import END, VARIANTS
from vocabularies import VOCABULARIES

DEEPLY = ("Llama 3", "Mistral", "Mamba")
"""Families read as a tree, as one up to a window, and by a state."""
WITH_TOKENIZERS = ("autoregressive", "judge", "rating", "1 label", "similarity", "replies")


class Cell(NamedTuple):
    """A family, a kind of tokenizer (None for the family's own), and a column."""

    name: str
    kind: str | None
    column: str
    lightly: bool = False

    def __str__(self) -> str:
        return ", ".join(filter(None, (self.name, self.kind, self.column)))


def first_column(name: str) -> str:
    """Return the column that tells most of a family."""
    return "likelihood" if FAMILIES[name].kind == "decoder" else "1 label"


BY_SCORER = [
    Cell(name, None, column) for name in FAMILIES for column in (*COLUMNS, "replies", "reads")
]
BY_TOKENIZER = [
    Cell(name, kind, first_column(name), lightly=True) for name in FAMILIES for kind in VOCABULARIES
]
BY_BOTH = [
    Cell(name, kind, column, lightly=True)
    for name in DEEPLY
    for kind in VOCABULARIES
    for column in WITH_TOKENIZERS
]
BY_VARIANT = [
    Cell(name, None, column, lightly=True) for name in FAMILIES for column in (*VARIANTS, END)
]
