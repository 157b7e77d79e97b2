"""Held-out users: their split from those trained on, the answers they get, and the rewards."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from palate.answers import Samples
from palate.answers.samples import Sample
from palate.benchmarks import Dataset
from palate.benchmarks.dataset import as_mirrored
from palate.errors import DataError, RunError, UsageError, writing
from palate.files import write_whole
from palate.quality.measure import first_names
from palate.records import Progress, Question, Record, normal_form
from palate.rewards import Scale
from palate.seeding import digest, shuffled
from palate.words import runs, split_words

RUN = 4
"""Words in a row that are taken for copied where the policy was shown them."""


class UserSplit(NamedTuple):
    """Rows of different users."""

    train: Dataset
    held_out: Dataset

    @property
    def shared_questions(self) -> int:
        """Held-out rows whose question other users asked in training."""
        trained_on = {row.normal_key for row in self.train.rows}
        return sum(row.normal_key in trained_on for row in self.held_out.rows)


def hold_out(pairs: Dataset, users: int, seed: int, *, couples: bool = False) -> UserSplit:
    """Hold out the rows of so many users, drawn by the seed.

    With `couples` users are drawn by mirrored couples, and only the couples of two held-out users
    are looked at; their other rows are in neither part. Raises `UsageError` where nobody would be
    left to train on, or held out.
    """
    names = list(dict.fromkeys(row.user_id for row in pairs.rows))
    if not 1 <= users < len(names):
        raise UsageError(
            f"--held-out {users}: expected 1 to {len(names) - 1} of the {len(names)} users of "
            f"{pairs.name}, whose rows are then not trained on"
        )
    if couples:
        couples_of = [[pairs.rows[k].user_id for k in couple] for couple in pairs.couples]
        order = [name for couple in shuffled(couples_of, "held out", seed) for name in couple]
        if len({*order}) < users:
            raise UsageError(
                f"--held-out {users}: {pairs.name} has mirrored couples of {len({*order})} users"
            )
    else:
        order = shuffled(names, "held out", seed)
    apart = set(list(dict.fromkeys(order))[:users])
    train = [row for row in pairs.rows if row.user_id not in apart]
    held_out = [row for row in pairs.rows if row.user_id in apart]
    if couples:
        ids = {row.id for row in held_out}
        held_out = [row for row in held_out if getattr(row, "mirror_of", None) in ids]
        if not held_out:
            raise UsageError(
                f"--held-out {users}: no mirrored couple of {pairs.name} is of held-out users; "
                "hold out 2 or more, from rows in couples"
            )
    everyone = pairs.everyone or pairs.rows
    parts = (replace(pairs, rows=tuple(rows), everyone=everyone) for rows in (train, held_out))
    return UserSplit(*map(as_mirrored, parts))


def refuse_shared(split: UserSplit) -> UserSplit:
    """Return the split; raises `DataError` where both parts hold a row, a user or one's posts."""
    of: Mapping[str, Callable[[Question], str | None]] = {
        "rows": lambda row: row.id,
        "users": lambda row: row.user_id,
        "users by all that they wrote": _profile,
    }
    for what, name in of.items():
        trained_on = {name(row) for row in split.train.rows} - {None}
        both = [row for row in split.held_out.rows if name(row) in trained_on]
        if both:
            named = list(dict.fromkeys(row.id if what == "rows" else row.user_id for row in both))
            raise DataError(
                f"{split.held_out.name}: {len(named)} {what} are trained on too "
                f"({first_names(named)}); hold out rows of other users"
            )
    return split


def _profile(row: Question) -> str | None:
    texts = sorted(normal_form(post.text).lower() for post in row.profile)
    return digest(texts) if texts else None


class PolicyAnswer(Record):
    """An answer of a policy in training; sums over its tokens, its end included."""

    text: str
    ended: bool
    """False where it was cut off at the most tokens."""
    tokens: int
    log_ratio: float
    """log π(y) − log π_ref(y), whose mean is an unbiased estimate of the KL divergence."""
    kl: float
    """Σ_t KL(π(· | y_<t) ‖ π_ref(· | y_<t)): the same mean, with less noise, never negative."""
    entropy: float
    """Σ_t of the policy's entropy, in nats."""


Write = Callable[[Sequence[Sequence[int]], int, Progress], list[tuple[PolicyAnswer, ...]]]
"""Writes so many answers of a policy to each prompt of ids."""


class HeldOutAnswer(PolicyAnswer):
    """An answer to a held-out row, as it was written and rewarded."""

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


def share_copied(text: str, prompt: str) -> float | None:
    """Return the share of a text's runs of four words that another holds; None without a run.

    >>> share_copied("I like hot tea a lot", "They like hot tea a bit.")
    0.3333333333333333
    """
    written, shown = (runs(split_words(words.lower()), RUN) for words in (text, prompt))
    known = set(shown)
    return sum(run in known for run in written) / len(written) if written else None
