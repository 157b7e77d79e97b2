"""Evaluation on held-out users: their answers, rewards, and how far the policy moved."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np

from palate.answers import Samples
from palate.answers.policies import Sample
from palate.errors import RunError, writing
from palate.files import write_whole
from palate.records import Progress, Record
from palate.rewards import Reward, RewardValue, Scale, row_requests
from palate.words import runs, split_words

if TYPE_CHECKING:
    from palate.trainers.held_out_users.answers import AnswerWriter, PolicyAnswer

RUN = 4
"""Words in a row that are taken for copied where the policy was shown them."""


class HeldOutAnswer(Record):
    """One answer to a held-out row, as it was written and rewarded."""

    text: str
    ended: bool
    tokens: int
    log_ratio: float
    kl: float
    entropy: float
    copied: float | None
    reward: float | None
    """The scorer's own number."""
    stranger_reward: float | None = None
    reason: str | None = None
    """Why there is no reward."""
    stranger_reason: str | None = None
    """Why there is none where the scorer reads a stranger."""


class HeldOutRow(Record):
    """The answers to one row."""

    id: str
    answers: tuple[HeldOutAnswer, ...]


@dataclass(frozen=True)
class HeldOutAnswers:
    """All answers after so many updates."""

    update: int
    rows: tuple[HeldOutRow, ...]

    @classmethod
    def read(cls, folder: Path, update: int) -> Self | None:
        """Return what was written after so many updates; None where nothing was, or not whole."""
        path = file_of(folder, update)
        if not path.is_file():
            return None
        try:
            with path.open(encoding="utf-8", errors="surrogatepass", newline="\n") as lines:
                return cls(update, tuple(map(HeldOutRow.model_validate_json, lines)))
        except (OSError, ValueError) as error:
            raise RunError(f"{path}: cannot be read; remove it and run ppo again") from error

    def write(self, folder: Path) -> None:
        """Write them, all or nothing; raises `ResourceError` where the disk refuses."""
        path = file_of(folder, self.update)
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_whole(path, (f"{row.model_dump_json()}\n" for row in self.rows))

    @property
    def every(self) -> list[HeldOutAnswer]:
        """All answers, in order."""
        return [answer for row in self.rows for answer in row.answers]

    def samples(self, policy: str) -> Samples:
        """Return the answers as samples, which measures of quality read."""
        return Samples(
            f"{policy} after {self.update} updates",
            tuple(row.id for row in self.rows),
            tuple(tuple(Sample(it.text, not it.ended) for it in row.answers) for row in self.rows),
        )

    def means(self, scale: Scale | None = None) -> dict[str, float]:
        """Return means over answers, for the log; what no answer has is left out.

        Rewards are brought to the scale, and `scored` is the share of answers that have one.
        """

        def scaled(value: float | None) -> float | None:
            return value if value is None or scale is None else scale.on(value)

        listed: dict[str, list[float | None]] = {
            "reward": [scaled(it.reward) for it in self.every],
            "stranger_reward": [scaled(it.stranger_reward) for it in self.every],
            "scored": [float(it.reward is not None) for it in self.every],
            "kl": [it.kl for it in self.every],
            "tokens": [float(it.tokens) for it in self.every],
            "ended": [float(it.ended) for it in self.every],
            "copied": [it.copied for it in self.every],
        }
        known = {name: [v for v in values if v is not None] for name, values in listed.items()}
        return {name: float(np.mean(values)) for name, values in known.items() if values}


def file_of(folder: Path, update: int) -> Path:
    """Return where the answers after so many updates are kept."""
    return folder / "answers" / f"{update:06d}.jsonl"


@dataclass(frozen=True)
class HeldOut:
    """Held-out rows, what the policy is asked and shown of each, and who rewards the answers."""

    rows: tuple[str, ...]
    prompts: tuple[tuple[int, ...], ...]
    shown: tuple[str, ...]
    """All texts of each prompt, in which copied words are looked for."""
    n: int
    reward: Reward
    """On the scorer's own scale."""
    stranger_reward: Reward | None

    def answers(self, writer: AnswerWriter, update: int, progress: Progress) -> HeldOutAnswers:
        """Return new answers of the writer's policy; raises what scoring raises."""
        written = writer.write(self.prompts, self.n, progress)
        requests, of_stranger = row_requests(self.rows, written), self.stranger_reward
        rewards = self.reward.values(requests)
        strangers = None if of_stranger is None else of_stranger.values(requests)
        rows = []
        for k, (row, answers) in enumerate(zip(self.rows, written, strict=True)):
            other = None if strangers is None else strangers[k]
            rows.append(
                HeldOutRow(
                    id=row,
                    answers=tuple(
                        self._answer(k, answer, rewards[k][j], None if other is None else other[j])
                        for j, answer in enumerate(answers)
                    ),
                )
            )
        return HeldOutAnswers(update, tuple(rows))

    def _answer(
        self, k: int, answer: PolicyAnswer, value: RewardValue, stranger: RewardValue | None
    ) -> HeldOutAnswer:
        return HeldOutAnswer(
            **answer._asdict(),
            copied=share_copied(answer.text, self.shown[k]),
            reward=value.value,
            stranger_reward=None if stranger is None else stranger.value,
            reason=value.reason,
            stranger_reason=None if stranger is None else stranger.reason,
        )


def share_copied(text: str, prompt: str) -> float | None:
    """Return the share of a text's runs of four words that another holds; None without a run.

    >>> share_copied("I like hot tea a lot", "They like hot tea a bit.")
    0.3333333333333333
    """
    written, there = (runs(split_words(words.lower()), RUN) for words in (text, prompt))
    known = set(there)
    return sum(run in known for run in written) / len(written) if written else None
