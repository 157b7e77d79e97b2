"""A guided policy under the `generate` of transformers: what the guide adds to each step's scores.

`generate` decides which rows there are, and calls with every row from its beginning. What the guide
has read is therefore looked up by what the rows hold: beams reorder them, assisted decoding goes
back, and another call of `generate` begins again at the prompts.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import TYPE_CHECKING, Any

from transformers import LogitsProcessor

from palate.engines.local import LocalModel
from palate.engines.local.decoding.ensemble import Member, ModelEnsemble
from palate.engines.local.valid_ids import ValidIds
from palate.engines.text.chat_template import ids_of
from palate.engines.text.reader import vocabulary_of
from palate.errors import UsageError
from palate.guidance.candidates import Candidates
from palate.guidance.fusion import Fusion, weighted
from palate.guidance.guides import PrefixGuide, Reading, TokenGuide
from palate.guidance.prefixes import PrefixRows
from palate.guidance.row_matching import Row, rows_of, shared_with
from palate.models import import_torch

if TYPE_CHECKING:
    from torch import Tensor

REMEMBERED = 64
"""Rewards that are at hand where there is one row: assisted decoding asks for them twice."""

DRAFTED = 64
"""Tokens behind the last that `generate` may ask for: prompt lookup drafts past the end."""


class CallersModel:
    """The caller's model and tokenizer."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.reference = str(getattr(model, "name_or_path", "") or type(model).__name__)
        self.vocabulary = vocabulary_of(tokenizer)

    @property
    def ids(self) -> int:
        """How many ids there are."""
        return ValidIds.of(self.model, self.tokenizer, self.device).size

    @property
    def ends(self) -> frozenset[int]:
        """The ids that end a reply."""
        return ids_of(self.model.generation_config.eos_token_id)

    @property
    def device(self) -> Any:
        """Where the model is."""
        return self.model.device


class GuidanceProcessor(LogitsProcessor):
    """Makes the law of a guided policy of the scores of `generate`: logits or log-probabilities.

    Args:
        law: what is made of policy and guide.
        policy: what generates.
        guide: a `TokenGuide` for a fusion, a `PrefixGuide` for candidates.
        prompts: token ids, as `generate` gets them without padding.
        readings: what the guide reads for each prompt.
        room: tokens that a response is to have; it may have more while they fit the guide's window.
    """

    def __init__(
        self,
        law: Fusion | Candidates,
        policy: CallersModel,
        guide: TokenGuide | PrefixGuide,
        prompts: Sequence[Sequence[int]],
        readings: Sequence[Reading],
        room: int,
    ) -> None:
        self.law, self.policy, self.guide = law, policy, guide
        self.prompts, self.readings = [list(ids) for ids in prompts], readings
        self.dropped = tuple(reading.dropped for reading in readings)
        """Parts of what is shown that did not fit the guide's window, by prompt."""
        self.room = _room(guide, readings)
        """Tokens that fit the guide's window behind what it reads, drafts included."""
        self._places = room + DRAFTED
        """Tokens of a response that the guide's rows have places for."""
        self.read = 0
        """Tokens that the guide has read behind its prompts, over all rows."""
        self._earlier: list[Row] = []
        self._rows: ModelEnsemble | PrefixRows | None = None
        self._recent: dict[tuple[int, tuple[int, ...]], Tensor] = {}

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the guided logits (rows × ids); −∞ for what cannot follow.

        Raises `UsageError` where the rows are not those of the prompts, or too long.
        """
        torch, rows = import_torch(), self._checked(input_ids.tolist())
        with torch.no_grad():
            policy = self._valid_ids.only(torch.log_softmax(scores.float(), dim=-1))
            with self.guide.in_place():
                fused = self._fused(policy, rows)
            guided: Tensor = torch.full_like(scores, -math.inf)
            guided[:, : self._valid_ids.size] = fused.to(scores.dtype)
        return guided

    @cached_property
    def _valid_ids(self) -> ValidIds:
        policy = self.policy
        return ValidIds.of(policy.model, policy.tokenizer, policy.device)

    def _fused(self, policy: Tensor, rows: list[Row]) -> Tensor:
        if isinstance(self.law, Fusion):
            return self.law.logits(policy, self._rewards(rows).to(policy.device))
        tokens = self.law.tokens(policy)
        there = self._at(rows)
        assert isinstance(there, PrefixRows)
        with import_torch().inference_mode():
            rewards = there.rewards(tokens.tolist()).to(policy.device)
        self.read += tokens.numel()
        logits = self.law.logits(policy, tokens, rewards)
        fused: Tensor = import_torch().full_like(policy, -math.inf).scatter(-1, tokens, logits)
        return fused

    def _rewards(self, rows: list[Row]) -> Tensor:
        key = rows[0].prompt, tuple(rows[0].response)
        if len(rows) == 1 and key in self._recent:
            return self._recent[key]
        there = self._at(rows)
        assert isinstance(there, ModelEnsemble)
        terms = [self._valid_ids.only(logp) for logp in there.log_probabilities()]
        rewards = weighted(self.guide.coefficients, terms)  # type: ignore[union-attr]
        if len(rows) == 1:
            self._recent[key] = rewards
            if len(self._recent) > REMEMBERED:
                del self._recent[next(iter(self._recent))]
        return rewards

    def _at(self, rows: list[Row]) -> ModelEnsemble | PrefixRows:
        """Return the guide's rows at these, from what they share with the earlier ones."""
        length = len(rows[0].response)
        shared, order = shared_with(self._earlier, rows)
        if length >= self._places:  # read anew, with more places
            self._places, self._rows = 2 * length, None
            self.__dict__.pop("_beginning", None)
        earlier, there = self._earlier, self._rows
        self._earlier = []  # whatever is raised below, the next call begins anew
        if shared == length < len(earlier[0].response if earlier else ()):
            shared -= 1  # outputs are kept of the last token alone
        if there is None or shared <= 0:
            there, shared = self._beginning.of([row.prompt for row in rows]), 0
        else:
            back = len(earlier[0].response) - shared
            there = there if order == list(range(len(earlier))) else there.of(order)
            if back:
                there.back(back)
        for step in range(shared, length):
            there.advance([row.response[step] for row in rows])
        self.read += (length - shared) * len(rows)
        self._rows, self._earlier = there, rows
        return there

    def _checked(self, ids: list[list[int]]) -> list[Row]:
        rows = rows_of(ids, self.prompts)
        if len(rows[0].response) >= self.room:
            raise UsageError(
                f"generate writes, or drafts, more than {self.room:.0f} tokens, which is all that "
                "the guide's window has room for; give palate.guidance the max_new_tokens of "
                "generate, so that it cuts what it shows"
            )
        return rows

    @cached_property
    def _models(self) -> tuple[LocalModel, ...]:
        # What is held between calls of `generate` is in use until this object is gone.
        in_use, models = ExitStack(), self.guide.models
        for model in models:
            in_use.enter_context(model.in_use())
        weakref.finalize(self, in_use.close).atexit = False
        return models

    @cached_property
    def _beginning(self) -> ModelEnsemble | PrefixRows:
        models, places = self._models, int(min(self._places, self.room))
        if isinstance(self.law, Candidates):
            return PrefixRows(self.guide, self.readings, self.policy.ends, places)  # type: ignore[arg-type]
        return ModelEnsemble(
            [
                Member(model, [reading.prompts[k] for reading in self.readings])
                for k, model in enumerate(models)
            ],
            places,
        )


def _room(guide: TokenGuide | PrefixGuide, readings: Sequence[Reading]) -> float:
    rooms = [math.inf]
    for k, reader in enumerate(guide.readers):
        if reader.window is not None:
            longest = max(len(reading.prompts[k]) for reading in readings)
            rooms.append(reader.window - longest - len(getattr(guide, "closing", ())))
    return min(rooms)
