"""All that the files of an export are written from."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

from palate.errors import UsageError
from palate.runs.manifest import slug
from palate.seeding import digest
from palate.trainers.export.policies import ExportedPolicy
from palate.trainers.export.prompts import PromptRow, PromptRows

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PORT = 8000
"""Of `palate serve`, unless told."""
EVERY = 10
"""Updates between looks at held-out users, at most."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


class Batches(NamedTuple):
    """How many answers belong together; of the paper's runs, where there are as many rows."""

    update: int = 128
    """Written before an update."""
    step: int = 16
    """Of one step of the optimiser."""
    at_once: int = 4
    """Of one pass on one accelerator."""

    @classmethod
    def of(cls, rows: int) -> Batches:
        """Return batches that so many rows can fill.

        >>> Batches.of(1000), Batches.of(66).update, Batches.of(9)
        (Batches(update=128, step=16, at_once=4), 64, Batches(update=8, step=8, at_once=2))
        """
        update = min(128, 2 ** (rows.bit_length() - 1))
        step = min(16, update)
        return cls(update, step, max(1, step // 4))


def interval(updates: int, most: int = EVERY) -> int:
    """Return the interval of looks that leaves fewest updates behind the last, at most so long.

    >>> [interval(n) for n in (1, 9, 11, 25, 100)]
    [1, 9, 5, 8, 10]
    """
    return updates // -(-updates // most)


@dataclass(frozen=True)
class Served:
    """The reward server that trainers ask."""

    scorer: str
    context: str
    data: tuple[str, ...]
    """What `palate serve` is told of the data, as words of the command line."""
    url: str = "http://127.0.0.1:8000"
    key_env: str | None = None
    """Environment variable that holds the bearer token, there and here."""

    def __post_init__(self) -> None:
        """Refuse what is no address or no name; raises `UsageError`."""
        try:
            parts = urlsplit(self.url)
            whole = parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0
        except ValueError:
            whole = False
        if not whole or re.search(r"[\s?#@]", self.url):
            raise UsageError("--url: expected an address such as http://127.0.0.1:8000, no key")
        if self.key_env is not None and not VARIABLE.match(self.key_env):
            raise UsageError(f"--key-env {self.key_env}: expected the name of a variable")

    @property
    def base(self) -> str:
        """The address, to which a path is added."""
        return self.url.rstrip("/")

    def command(self, end_of_turn: str | None = None) -> str:
        """Return the command that serves the scorer there.

        >>> print(Served("longest", "none", ("-b", "tasting"), "http://node7:9000").command())
        palate serve -s longest -c none -b tasting --host node7 --port 9000
        """
        words = ["palate", "serve", "-s", self.scorer, "-c", self.context, *self.data]
        parts = urlsplit(self.url)
        if parts.scheme == "http":  # behind anything else stands a proxy, on a port of its own
            host, port = parts.hostname or "", parts.port or 80
            words += ["--host", host] if host not in LOOPBACK else []
            words += ["--port", str(port)] if port != PORT else []
        if self.key_env is not None:
            words += ["--key-env", self.key_env]
        if end_of_turn is not None:
            words += ["--end-of-turn", end_of_turn]
        return shlex.join(words)


@dataclass(frozen=True)
class ExportPlan:
    """One export."""

    trainer: str
    benchmark: str
    served: Served
    policy: ExportedPolicy
    policy_context: str
    rows: PromptRows
    prompt_tokens: int
    mean: float = 0.0
    """A reward is (score - mean) / deviation."""
    deviation: float = 1.0
    kl_coefficient: float = 0.05
    """What a nat of KL from the untrained policy costs, in units of the reward."""
    seed: int = 0

    @property
    def batches(self) -> Batches:
        """As the rows that are trained on can fill them."""
        return Batches.of(len(self.rows.train))

    @property
    def experiment(self) -> str:
        """The name of the run and of its checkpoints: no two scorers share one."""
        prompts = [(row.row, row.user, row.messages) for row in self.rows.train]
        served = self.served.scorer, self.served.context
        numbers = self.mean, self.deviation, self.kl_coefficient, self.seed
        asked = self.benchmark, prompts, self.policy.spec
        known = digest(self.trainer, *served, *asked, *numbers)
        return "-".join([*map(slug, served), known[:8]])

    @property
    def updates(self) -> int:
        """Full updates of one pass over the rows."""
        return len(self.rows.train) // self.batches.update

    @property
    def evaluate_every(self) -> int:
        """Updates between looks at held-out users: about ten, and the last look near the end."""
        return interval(self.updates)

    def users(self, rows: Sequence[PromptRow]) -> int:
        """Return how many users rows are of."""
        return len({row.user for row in rows})
