"""What a policy is asked of each row, and whose rows are held out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.downstream.export.policies import ExportedPolicy
from palate.downstream.sampling import policy_prompt, shown_to_policy
from palate.errors import UsageError
from palate.records import Message, Settings
from palate.seeding import shuffled
from palate.session import Session


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

    Raises `UsageError` where nobody would be left to train on, or held out, and for a context that
    no policy may be shown.
    """
    users = list(dict.fromkeys(row.user_id for row in pairs.rows))
    if not 1 <= held_out < len(users):
        raise UsageError(
            f"--held-out {held_out}: expected 1 to {len(users) - 1} of the {len(users)} users of "
            f"{pairs.name}, whose rows are then not trained on"
        )
    apart = set(shuffled(users, "held out", settings.seed)[:held_out])
    shown = shown_to_policy(build_context(context, session, settings), pairs, settings.seed)
    rows = [
        PromptRow(row.id, row.user_id, tuple(
            Message(role=message.role, content=policy.safe(message.content))
            for message in policy_prompt(row, shown)
        ))
        for row in pairs.rows
    ]  # fmt: skip
    return PromptRows(
        [row for row in rows if row.user not in apart], [row for row in rows if row.user in apart]
    )
