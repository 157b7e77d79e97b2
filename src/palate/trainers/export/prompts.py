"""Prompts for a policy, one a row, and the rows that are held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palate.answers import policy_prompt, shown_to_policy
from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.records import Message, Question, Settings
from palate.session import Session
from palate.trainers.export.policies import ExportedPolicy
from palate.trainers.split import hold_out, refuse_shared


class PromptRow(NamedTuple):
    """One row's prompt; the row's id is all that a reward needs beside the response."""

    row: str
    user: str
    prompt: tuple[Message, ...]

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt as trainers read it."""
        return [{"role": message.role, "content": message.content} for message in self.prompt]


class PromptRows(NamedTuple):
    """Rows of different users."""

    train: Sequence[PromptRow]
    held_out: Sequence[PromptRow]

    @property
    def prompts(self) -> list[tuple[Message, ...]]:
        """All prompts."""
        return [row.prompt for row in (*self.train, *self.held_out)]


def prompt_rows(
    pairs: Dataset,
    policy: ExportedPolicy,
    context: str,
    held_out: int,
    session: Session,
    settings: Settings,
) -> PromptRows:
    """Ask every row as `best_of_n` asks it, and hold out the rows of so many users.

    A text that spells a token of the policy's template is broken there too, where the policy's
    tokenizer lies here.

    Raises `UsageError` where nobody would be left to train on, or held out, for a person under two
    ids, and for a context that no policy may be shown.
    """
    split = refuse_shared(hold_out(pairs, held_out, settings.seed))
    shown_parts = shown_to_policy(build_context(context, session, settings), pairs, settings.seed)

    def prompt_row(row: Question) -> PromptRow:
        turns = policy_prompt(row, shown_parts)
        safe = tuple(Message(role=turn.role, content=policy.safe(turn.content)) for turn in turns)
        return PromptRow(row.id, row.user_id, safe)

    return PromptRows(*([prompt_row(row) for row in part.rows] for part in split))
