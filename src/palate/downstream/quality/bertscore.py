"""BERTScore: how well each token of one text is matched by a token of the other, in context."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from palate.downstream.quality.against_reference import (
    AgainstReference,
    import_text_metrics,
    library_of_text_metrics,
)
from palate.engines import Reader
from palate.engines.text.reader import window_of
from palate.errors import ModelError, SpecError, first_line
from palate.models import choose_device, import_torch, import_transformers, resolve
from palate.records import Settings
from palate.specs import Reference, Spec

Ids = list[int]
AROUND = 2
"""Tokens around a text, which are not matched: one before it and one after."""


class BertScore(AgainstReference):
    """`overlap:bertscore?model=REF`: F1 of the tokens' best cosines (arXiv 1904.09675, section 3).

    Last hidden states in float32, no idf, no rescaling with a baseline; the tokens around a text
    are not matched. A text longer than the window is read in windows. A cosine below 0 counts, an
    F1 below 0 is 0. Computed by torchmetrics.
    """

    def __init__(self, spec: Spec, settings: Settings) -> None:
        if "model" not in spec.options:
            raise SpecError(
                f"{spec}: which encoder? Give one, as in overlap:bertscore?model=ORG/MODEL"
            )
        self._score = import_text_metrics().bert_score
        self.reference = Reference.parse(spec.options["model"])
        self.settings = settings
        self.device = choose_device(settings.device)
        self._reader = Reader(self.reference, settings)
        self._now: tuple[Ids, Any] | None = None
        details = {
            "measure": "bertscore",
            "content": resolve(self.reference).content,
            "device": self.device.split(":", maxsplit=1)[0],
            "dtype": "float32",
            "layer": "last",
            "library": library_of_text_metrics(),
        }
        super().__init__(spec, details)

    def unusable(self) -> str:
        """Name references without a token."""
        return "a `reference` of which the encoder's tokenizer makes no token"

    def reads(self, reference: str) -> bool:
        """Say whether the reference has a token; raises `ModelError` as `value` does."""
        return _length(self._tokens(reference)) > AROUND

    def value(self, response: str, reference: str) -> float:
        """Return F1; 0 for a response without a token.

        Raises `ModelError` where the model is no encoder that is read like BERT.
        """
        ours, theirs = self._tokens(response), self._tokens(reference)
        if min(_length(ours), _length(theirs)) <= AROUND:
            return 0.0
        ids = theirs["input_ids"][0].tolist()
        if self._now is None or self._now[0] != ids:
            self._now = (ids, self._states(self._model, theirs))
        # Two texts and no more: of a batch, torchmetrics 1.9 mixes up which belong together.
        found = self._score(
            ours, theirs, model=self._model, user_forward_fn=self._states, device=self.device
        )
        return float(found["f1"])

    @cached_property
    def _model(self) -> Any:
        torch, transformers = import_torch(), import_transformers()
        try:
            model = transformers.AutoModel.from_pretrained(
                resolve(self.reference).path,
                dtype=torch.float32,
                use_safetensors=True,
                trust_remote_code=self.settings.trust_remote_code,
            )
        except Exception as error:  # what a broken folder raises is anybody's guess
            raise ModelError(f"{self.reference}: cannot be loaded ({first_line(error)})") from error
        return model.to(self.device).eval()

    @cached_property
    def _around(self) -> tuple[int, int]:
        """The tokens before and after a text, which torchmetrics takes for given."""
        inner = self._inner("a")
        ids = self._reader.tokenizer("a", verbose=False)["input_ids"]
        if len(ids) != len(inner) + AROUND or ids[1:-1] != inner:
            raise ModelError(
                f"{self.reference}: BERTScore needs an encoder whose tokenizer puts one token "
                "before a text and one after it, as BERT's does"
            )
        return ids[0], ids[-1]

    @cached_property
    def _room(self) -> int | None:
        """Tokens of a text that fit into the window."""
        embeddings = getattr(self._model, "embeddings", None)
        window = window_of(self._reader.config, self._reader.tokenizer, embeddings)
        return None if window is None else max(1, window - AROUND)

    def _inner(self, text: str) -> Ids:
        ids = self._reader.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return [int(token) for token in ids]

    def _tokens(self, text: str) -> dict[str, Any]:
        torch, (before, after) = import_torch(), self._around
        ids = torch.tensor([[before, *self._inner(text), after]])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    def _states(self, model: Any, batch: dict[str, Any]) -> Any:
        """Return the last hidden states (1 × tokens × width) of one text, however long."""
        torch, ids = import_torch(), batch["input_ids"][0].tolist()
        if self._now is not None and self._now[0] == ids:
            return self._now[1].clone()  # torchmetrics writes into what it gets
        inner = ids[1:-1]
        found = []
        with torch.no_grad():
            for window in self._windows(inner):
                tokens = torch.tensor([[ids[0], *window, ids[-1]]], device=self.device)
                mask = torch.ones_like(tokens)
                found.append(model(input_ids=tokens, attention_mask=mask).last_hidden_state)
        own = [states[:, 1:-1] for states in found]
        return torch.cat([found[0][:, :1], *own, found[-1][:, -1:]], dim=1)

    def _windows(self, inner: Sequence[int]) -> list[Sequence[int]]:
        count = 1 if self._room is None else max(1, -(-len(inner) // self._room))
        cuts = np.linspace(0, len(inner), count + 1).round().astype(int)
        return [inner[i:j] for i, j in zip(cuts[:-1], cuts[1:], strict=True)]


def _length(tokens: dict[str, Any]) -> int:
    return int(tokens["input_ids"].shape[1])
