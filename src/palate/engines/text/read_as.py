"""A model that reads another's token ids, so that the two can be compared token by token."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

from palate.engines.text.reader import Reader
from palate.errors import ModelError

NAMED = 3
"""Ids that an error names."""


def read_as(model: Reader, other: Reader) -> Reader:
    """Return a reader of this model whose ids are made by the other's tokenizer and template.

    Where both make ids alike it is the model's own. Raises `ModelError` where an id is one token
    to one of the two and another, or none, to the other; a pad token is never read.
    """
    if model.reading == other.reading:
        return model
    differ = differing_ids(model.tokenizer, other.tokenizer)
    if differ:
        raise ModelError(
            f"{model.reference} and {other.reference} have other tokens ({differ}); they can be "
            "compared only on one vocabulary"
        )
    return ReadAs(model, other)


class ReadAs(Reader):
    """A model's weights, window and rows; another's tokenizer and template."""

    def __init__(self, model: Reader, other: Reader) -> None:
        super().__init__(model.reference, model.settings, model.resolved)
        self.model, self.other = model, other

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel without what is loaded."""
        return type(self), (self.model, self.other)

    @cached_property
    def tokenizer(self) -> Any:
        """The other's tokenizer."""
        return self.other.tokenizer

    @cached_property
    def window(self) -> int | None:
        """Tokens that this model can read."""
        return self.model.window

    @property
    def tokenizer_folder(self) -> Path:
        """Where the files of the other's tokenizer and template are."""
        return self.other.tokenizer_folder

    @cached_property
    def answer_details(self) -> dict[str, str]:
        """What the other's template is told, and that it is the other's."""
        return {**super().answer_details, "reads as": self.other.reading}


def differing_ids(first: Any, second: Any) -> str:
    """Name the first ids that are not one token to both tokenizers; empty where there are none."""
    tokens = [{k: token for token, k in each.get_vocab().items()} for each in (first, second)]
    never_read = ({None, first.pad_token}, {None, second.pad_token})
    differ = [
        k
        for k in sorted(tokens[0].keys() | tokens[1].keys())
        if len(pair := {tokens[0].get(k), tokens[1].get(k)}) > 1 and pair not in never_read
    ]
    listed = [
        f"id {k}: " + " and ".join(repr(each[k]) if k in each else "none" for each in tokens)
        for k in differ[:NAMED]
    ]
    more = f"; … {len(differ):,} ids in all" if len(differ) > NAMED else ""
    return "; ".join(listed) + more
