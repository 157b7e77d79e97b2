"""A reward as TRL calls it: answers without an end, and answers that nothing could score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from palate.engines.text.marks import decoded
from palate.errors import OutsideError, UsageError
from palate.marks import OPEN_THOUGHT
from palate.rewards import Reward, RewardValue
from palate.rewards.completions import EMPTY

MissingEos = float | Literal["score", "mask"]
MISSING_EOS = "cut off before its end"


def read_missing_eos(text: str) -> MissingEos:
    """Return what an answer without an end gets; raises `UsageError` for what is none.

    >>> read_missing_eos("mask"), read_missing_eos("-1")
    ('mask', -1.0)
    """
    if text == "score":
        return "score"
    if text == "mask":
        return "mask"
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise UsageError(f"--missing-eos {text}: expected score, mask or a number")
    return value


@dataclass
class TrainingReward:
    """Gives TRL a number for each answer, or None for one that teaches nothing.

    An answer that was cut off is scored as it stands, masked, or given a number. What cannot be
    scored is masked too; where that is more than a share of a step's answers, the run ends.
    """

    reward: Reward
    ends: frozenset[int]
    """Ids that end an answer."""
    missing_eos: MissingEos = "score"
    max_unscored: float = 0.05
    tokenizer: Any = None
    """The policy's: TRL decodes without special tokens, and a thought's marks may be such."""
    counts: Counter[str] = field(default_factory=Counter)
    """Answers since the last look, and of them those without an end, and without a reward."""
    __name__ = "reward"

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        completion_ids: Sequence[Sequence[int]],
        *,
        row: Sequence[str],
        **_: Any,
    ) -> list[float | None]:
        """Return the rewards of the answers of a step.

        Raises:
            OutsideError: where more answers than `max_unscored` have no reward; checkpoints stay.
            And what scoring raises.
        """
        del prompts  # a thought that they would open is closed
        if self.tokenizer is not None:
            completions = [decoded(self.tokenizer, ids) for ids in completion_ids]
        open_ended = [not ids or ids[-1] not in self.ends for ids in completion_ids]
        scored = [k for k, cut in enumerate(open_ended) if self.missing_eos == "score" or not cut]
        rewards = self.reward.of_rows([row[k] for k in scored], [completions[k] for k in scored])
        values = dict(zip(scored, rewards, strict=True))
        number = None if isinstance(self.missing_eos, str) else self.missing_eos
        fixed = RewardValue(number, MISSING_EOS)
        every = [values.get(k, fixed) for k in range(len(completions))]
        self.counts.update(answers=len(completions), missing_eos=sum(open_ended))
        self._check([value for value in values.values() if value.value is None], len(completions))
        return [value.value for value in every]

    def _check(self, unscored: Sequence[RewardValue], answers: int) -> None:
        self.counts["unscored"] += len(unscored)
        if len(unscored) > self.max_unscored * answers:
            reasons = Counter(str(value.reason) for value in unscored).most_common()
            named = "; ".join(f"{n} {reason}" for reason, n in reasons)
            raise OutsideError(
                f"{len(unscored)} of {answers} answers of a step have no reward ({named}), more "
                f"than --max-unscored {self.max_unscored:g}; {_advice(reasons[0][0])}"
            )


def _advice(reason: str) -> str:
    """Return what helps against the most frequent reason."""
    if reason == EMPTY:
        return (
            "the policy has come to write them: hold it back by a larger --kl, or raise the share"
        )
    if reason == OPEN_THOUGHT:
        return "give the policy more tokens (?max_tokens=), or raise the share"
    return "mend the scorer, or raise it, and run the same command again to go on"
