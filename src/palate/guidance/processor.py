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
from typing import TYPE_CHECKING, NamedTuple

from transformers import LogitsProcessor

from palate.engines import LocalModel, Member, ModelEnsemble, ValidIds
from palate.errors import UsageError
from palate.guidance.guides import CallersModel, PrefixGuide, PrefixRows, Reading, TokenGuide
from palate.guidance.laws import Candidates, Fusion, weighted
from palate.models import import_torch

if TYPE_CHECKING:
    from torch import Tensor

REMEMBERED = 64
"""Rewards that are at hand where there is one row: assisted decoding asks for them twice."""

DRAFTED = 64
"""Tokens behind the last that `generate` may ask for: prompt lookup drafts past the end."""


class GuidanceProcessor(LogitsProcessor):
    """Makes the law of a guided policy of the scores of `generate`: logits or log-probabilities.

    The guide is a `TokenGuide` for a fusion, a `PrefixGuide` for candidates. `prompts` are token
    ids, as `generate` gets them without padding, and `readings` what the guide reads for each.
    `room` is how many tokens a response is to have; it may have more while they fit the guide's
    window.
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
        return self.policy.valid_ids

    def _fused(self, policy: Tensor, rows: list[Row]) -> Tensor:
        if isinstance(self.law, Fusion):
            return self.law.logits(policy, self._rewards(rows).to(policy.device))
        tokens = self.law.tokens(policy)
        prefixes = self._at(rows)
        assert isinstance(prefixes, PrefixRows)
        with import_torch().inference_mode():
            rewards = prefixes.rewards(tokens.tolist()).to(policy.device)
        self.read += tokens.numel()
        logits = self.law.logits(policy, tokens, rewards)
        fused: Tensor = import_torch().full_like(policy, -math.inf).scatter(-1, tokens, logits)
        return fused

    def _rewards(self, rows: list[Row]) -> Tensor:
        key = rows[0].prompt, tuple(rows[0].response)
        if len(rows) == 1 and key in self._recent:
            return self._recent[key]
        models = self._at(rows)
        assert isinstance(models, ModelEnsemble)
        terms = [self._valid_ids.only(logp) for logp in models.log_probabilities()]
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
        earlier, held = self._earlier, self._rows
        self._earlier = []  # whatever is raised below, the next call begins anew
        if shared == length < len(earlier[0].response if earlier else ()):
            shared -= 1  # outputs are kept of the last token alone
        if held is None or shared <= 0:
            held, shared = self._beginning.of([row.prompt for row in rows]), 0
        else:
            back = len(earlier[0].response) - shared
            held = held if order == list(range(len(earlier))) else held.of(order)
            if back:
                held.back(back)
        for step in range(shared, length):
            held.advance([row.response[step] for row in rows])
        self.read += (length - shared) * len(rows)
        self._rows, self._earlier = held, rows
        return held

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
        members = [
            Member(model, [reading.prompts[k] for reading in self.readings])
            for k, model in enumerate(models)
        ]
        return ModelEnsemble(members, places)


def _room(guide: TokenGuide | PrefixGuide, readings: Sequence[Reading]) -> float:
    rooms = [math.inf]
    for k, reader in enumerate(guide.readers):
        if reader.window is not None:
            longest = max(len(reading.prompts[k]) for reading in readings)
            rooms.append(reader.window - longest - len(getattr(guide, "closing", ())))
    return min(rooms)


Ids = list[int]


class Row(NamedTuple):
    """Which prompt a row goes on from, and what it holds behind it."""

    prompt: int
    response: Ids


def rows_of(ids: list[Ids], prompts: list[Ids]) -> list[Row]:
    """Tell apart padding, prompt and response of each row; rows of a prompt stand together.

    Raises `UsageError` where the rows are not those of the prompts.
    """
    if not all(ids):
        raise UsageError(
            "the rows of generate hold no prompt, as with inputs_embeds; call generate with "
            "input_ids"
        )
    per_prompt, rest = divmod(len(ids), len(prompts))
    if rest or not per_prompt:
        raise UsageError(
            f"generate has {len(ids)} rows and palate.guidance {len(prompts)} prompts; give both "
            "the same prompts, in the same order"
        )
    width = _end_of_prompt(ids[0], prompts[0], max(map(len, prompts)))
    rows = []
    for k, row in enumerate(ids):
        prompt = prompts[k // per_prompt]
        if width is None or not _ends_at(width, row, prompt):
            raise UsageError(_mismatch(k, ids, prompts))
        rows.append(Row(k // per_prompt, row[width:]))
    return rows


def _mismatch(k: int, ids: list[Ids], prompts: list[Ids]) -> str:
    """Say why row k, the first that is not its prompt's, is not."""
    per_prompt = len(ids) // len(prompts)
    of_rows = [prompt for prompt in prompts for _ in range(per_prompt)]
    if all(row[: len(prompt)] == prompt for row, prompt in zip(ids, of_rows, strict=True)):
        return (
            "the rows of generate are padded on the right; load the tokenizer with "
            'padding_side="left", or set tokenizer.padding_side = "left"'
        )
    if k % per_prompt:
        return (
            f"generate has {len(ids)} rows for {len(prompts)} question{'s' * (len(prompts) > 1)} "
            f"of palate.guidance, and row {k} does not begin with prompt {k // per_prompt}; give "
            "palate.guidance a question for each prompt of generate"
        )
    return (
        f"row {k} of generate does not begin with prompt {k // per_prompt} of palate.guidance, "
        "padded on the left; give prompts= what generate is given"
    )


def _end_of_prompt(row: Ids, prompt: Ids, least: int) -> int | None:
    """Return where a prompt behind left padding ends, from `least` tokens on."""
    for start in range(least - len(prompt), len(row) - len(prompt) + 1):
        if row[start] == prompt[0] and _ends_at(start + len(prompt), row, prompt):
            return start + len(prompt)
        if row[start] != row[0]:
            return None
    return None


def _ends_at(width: int, row: Ids, prompt: Ids) -> bool:
    start = width - len(prompt)
    return start >= 0 and row[start:width] == prompt and len(set(row[:start])) <= 1


def shared_with(earlier: list[Row], rows: list[Row]) -> tuple[int, list[int]]:
    """Return how many tokens all rows share with an earlier row, and with which each of them."""
    if len(earlier) == len(rows) and all(
        former.prompt == row.prompt and row.response[: len(former.response)] == former.response
        for former, row in zip(earlier, rows, strict=True)
    ):
        return len(earlier[0].response), list(range(len(rows)))
    order, least = [], len(rows[0].response)
    for row in rows:
        alike = [(_alike(former, row), -k) for k, former in enumerate(earlier)]
        longest, k = max(alike, default=(0, 0))
        order.append(-k)
        least = min(least, longest)
    return least, order


def _alike(earlier: Row, row: Row) -> int:
    if earlier.prompt != row.prompt:
        return 0
    n = min(len(earlier.response), len(row.response))
    if earlier.response[:n] == row.response[:n]:
        return n
    return next(k for k in range(n) if earlier.response[k] != row.response[k])
