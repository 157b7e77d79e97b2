"""Rows that a guide rates with each of some next tokens."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Self

from palate.engines.local.decoding import KVRows
from palate.guidance.guides import PrefixGuide, Reading

if TYPE_CHECKING:
    from torch import Tensor


class PrefixRows:
    """What is written so far, as a guide of prefixes reads it; `ends` are the policy's."""

    def __init__(
        self, guide: PrefixGuide, readings: Sequence[Reading], ends: Collection[int], room: int
    ) -> None:
        self.guide, self.ends = guide, ends
        self.slates = [reading.slate for reading in readings]
        (model,) = guide.models
        prompts = [reading.prompts[0] for reading in readings]
        self.rows = KVRows(model, prompts, room + len(guide.closing))

    def rewards(self, tokens: Sequence[Sequence[int]]) -> Tensor:
        """Return the reward of each row's prefix with each of k tokens (rows × k), float32.

        An end token closes the conversation; its reward is that of the closed response.
        """
        rewards = self.guide.rewards(self.rows.look(tokens), self.slates)
        closing = {
            row: [j for j, token in enumerate(of_row) if token in self.ends]
            for row, of_row in enumerate(tokens)
        }
        closing = {row: places for row, places in closing.items() if places}
        if closing:
            closed = self._closed(list(closing))
            for at, (row, places) in enumerate(closing.items()):
                rewards[row, places] = closed[at].to(rewards.dtype)
        return rewards

    def _closed(self, rows: Sequence[int]) -> Tensor:
        read, closed = self.guide.read_position(self.guide.closing), self.rows.of(rows)
        if self.ignores_closing:
            read = -1
        for token in self.guide.closing[: read + 1]:
            closed.advance([token] * len(rows))
        rewards = self.guide.rewards(closed.outputs[:, None], [self.slates[row] for row in rows])
        return rewards[:, 0]

    @property
    def ignores_closing(self) -> bool:
        """Whether the guide reads the last token before the end, because the end is padding."""
        # Behind a token that is no padding, the position read tells whether all of the end is.
        return self.guide.read_position([-1, *self.guide.closing]) == 0

    def take(self, which: Sequence[int]) -> None:
        """Go on with one of the tokens just rated, by its number, of each row."""
        self.rows.take(which)

    def advance(self, tokens: Sequence[int]) -> None:
        """Give each row its next token."""
        self.rows.advance(tokens)

    def back(self, steps: int) -> None:
        """Forget each row's last tokens, as `Rows.back`."""
        self.rows.back(steps)

    def of(self, rows: Sequence[int]) -> Self:
        """Return these rows, in this order, one perhaps several times; a copy."""
        some = object.__new__(type(self))
        some.guide, some.ends, some.rows = self.guide, self.ends, self.rows.of(rows)
        some.slates = [self.slates[row] for row in rows]
        return some
