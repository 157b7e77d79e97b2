"""BERTScore: how well each token of one text is matched by a token of the other, in context."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from palate.engines.text.reader import even_parts
from palate.errors import ModelError, SpecError
from palate.models import import_torch
from palate.quality.against_reference import AgainstReference
from palate.records import Settings
from palate.session import Session
from palate.specs import Reference, Spec

AROUND = 2
"""Tokens around a text, which are not matched: one before it and one after."""


class BertScore(AgainstReference):
    """`overlap:bertscore?model=REF`: F1 of the tokens' best cosines (arXiv 1904.09675, section 3).

    Last hidden states in float32, no idf, no rescaling with a baseline; the tokens around a text
    are not matched. A text longer than the window is read in windows. A cosine below 0 counts, an
    F1 below 0 is 0.
    """

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        if "model" not in spec.options:
            raise SpecError(
                f"{spec}: which encoder? Give one, as in overlap:bertscore?model=ORG/MODEL"
            )
        self.reference = Reference.parse(spec.options["model"])
        self.session = session
        exact = settings.model_copy(update={"dtype": "float32"})
        self._reader = session.reader(self.reference, exact)
        content, _, device = self._reader.weights
        # Of a reference: the responses to one come after another.
        self._latest_tokens = lru_cache(maxsize=1)(self._tokens)
        details = {
            "measure": "bertscore",
            "content": content,
            "device": device,
            "dtype": "float32",
            "layer": "last",
        }
        super().__init__(spec, details)

    def unusable(self) -> str:
        """Name references without a token."""
        return "a `reference` of which the encoder's tokenizer makes no token"

    def reads(self, reference: str) -> bool:
        """Say whether the reference has a token; raises `ModelError` as `value` does."""
        return bool(self._frame and self._ids(reference))

    def value(self, response: str, reference: str) -> float:
        """Return F1; 0 for a response without a token.

        Raises `ModelError` where the model is no encoder that is read like BERT.
        """
        ours, theirs = self._tokens(response), self._latest_tokens(reference)
        if not (len(ours) and len(theirs)):
            return 0.0
        cosines = ours @ theirs.T
        precision = float(cosines.amax(dim=1).mean())
        recall = float(cosines.amax(dim=0).mean())
        if min(precision, recall) <= 0:
            return 0.0
        return 2 * precision * recall / (precision + recall)

    @cached_property
    def _frame(self) -> tuple[int, int]:
        """The tokens before and after a text."""
        bare, ids = self._ids("a"), self._reader.tokenizer("a", verbose=False)["input_ids"]
        if len(ids) != len(bare) + AROUND or ids[1:-1] != bare:
            raise ModelError(
                f"{self.reference}: BERTScore needs an encoder whose tokenizer puts one token "
                "before a text and one after it, as BERT's does"
            )
        return ids[0], ids[-1]

    def _ids(self, text: str) -> list[int]:
        ids = self._reader.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return [int(token) for token in ids]

    def _tokens(self, text: str) -> Any:
        """Return the text's own tokens as unit vectors (tokens × width)."""
        torch, (before, after) = import_torch(), self._frame
        encoder = self.session.model_of(self._reader, "encoder")
        ids = self._ids(text)
        room = None if encoder.window is None else max(1, encoder.window - AROUND)
        states = []
        with encoder.in_use(), encoder.turns.of(), torch.no_grad():
            for start, end in even_parts(len(ids), room):
                framed = torch.tensor([[before, *ids[start:end], after]], device=encoder.device)
                states.append(encoder.model(input_ids=framed).last_hidden_state[0, 1:-1])
        return torch.nn.functional.normalize(torch.cat(states), dim=-1)
