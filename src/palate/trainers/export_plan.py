"""All that the files of an export are written from: policy, prompts, server, batches."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

from palate.answers import policy_prompt, shown_to_policy
from palate.answers.samples import TEMPERATURE, TOP_P, read_sampling
from palate.benchmarks import Dataset
from palate.engines import HELLO, ChatTemplate, window_of
from palate.errors import UsageError
from palate.marks import prompt_end
from palate.models import load_part
from palate.models.resolve import cached_snapshot
from palate.records import Context, Message, Question, Settings
from palate.runs.manifest import slug
from palate.seeding import digest
from palate.session import Session
from palate.specs import Reference, Spec
from palate.trainers.held_out import hold_out, refuse_shared

LOOPBACK = ("127.0.0.1", "::1", "localhost")
PORT = 8000
"""Of `palate serve`, unless told."""
EVERY = 10
"""Updates between looks at held-out users, at most."""
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
RESPONSE_TOKENS, PROMPT_TOKENS = 512, 8192
"""Of the paper's PPO runs (arXiv 2604.07343)."""


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


class ExportTarget(NamedTuple):
    """A trainer, in the release that its files were tested with."""

    name: str
    title: str
    data: Literal["jsonl", "parquet"]
    files: tuple[str, ...]
    """Beside the data; each has a template."""
    start: str
    """The command that starts training, in the folder."""
    columns: Callable[[PromptRow, int, ExportPlan], Mapping[str, Any]]
    """Of a row by itself, its number and the plan."""
    more: str | None = None
    """How one trains for longer; None where the trainer itself says how many updates it makes."""
    keeps_rest: bool = False
    """Whether rows that fill no whole update are one more."""
    needs_end_of_turn: bool = False
    """Whether the server is sent responses with their special tokens."""


@dataclass(frozen=True)
class ExportPlan:
    """One export."""

    target: ExportTarget
    benchmark: str
    served: Served
    policy: ExportedPolicy
    policy_context: str
    rows: PromptRows
    prompt_tokens: int
    mean: float
    """A reward is (score - mean) / deviation."""
    deviation: float
    kl_coefficient: float
    """What a nat of KL from the untrained policy costs, in units of the reward."""
    seed: int

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
        known = digest(self.target.name, *served, *asked, *numbers)
        return "-".join([*map(slug, served), known[:8]])

    @property
    def updates(self) -> int:
        """Full updates of one pass over the rows."""
        return len(self.rows.train) // self.batches.update

    @property
    def evaluate_every(self) -> int:
        """Updates between looks at held-out users: about ten, and the last look near the end."""
        return interval(self.updates)

    @property
    def serve(self) -> str:
        """The command that serves the scorer to this trainer."""
        behind = self.policy.end_of_turn if self.target.needs_end_of_turn else None
        return self.served.command(behind)

    @property
    def updates_in_words(self) -> str | None:
        """How many updates a pass gives, and how more are made; None where the trainer says so."""
        if self.target.more is None:
            return None
        plural = "" if self.updates == 1 else "s"
        counted = f"{self.updates:,} update{plural} of {self.batches.update} answers"
        rest = len(self.rows.train) % self.batches.update
        if rest:
            rows = f"{rest} row{'' if rest == 1 else 's'}"
            counted += f", and one of {rows}" if self.target.keeps_rest else f", {rows} left out"
        return f"{counted}; for more: {self.target.start} {self.target.more}"


@dataclass(frozen=True)
class ExportedPolicy:
    """What trainers load and sample; `template` is None where nothing of the model lies here."""

    spec: str
    model: str
    max_tokens: int = RESPONSE_TOKENS
    temperature: float = TEMPERATURE
    top_p: float = TOP_P
    template: ChatTemplate | None = None
    window: int | None = None
    """Tokens that the model reads, where it says so."""

    def safe(self, text: str) -> str:
        """Break what would open or close a turn of the policy's template."""
        return text if self.template is None else self.template.safe(text)

    @property
    def end_of_turn(self) -> str | None:
        """What the template writes after a response; None where it is not known."""
        return (self.template.behind.strip() or None) if self.template else None

    @property
    def open_thought(self) -> str:
        """The mark of the thought that prompts end within; "" for none, or where it is unknown."""
        template = self.template
        return prompt_end(template.text(HELLO, generation=True)).mark if template else ""

    def prompt_tokens(self, rows: PromptRows) -> int:
        """Return how many tokens the longest prompt has; the paper's limit where that is unknown.

        Raises `UsageError` where a prompt leaves no room for an answer.
        """
        if self.template is None:
            return PROMPT_TOKENS
        prompts = [row.prompt for part in rows for row in part]
        longest = max(len(self.template.prompt(prompt)) for prompt in prompts)
        if self.window is not None and longest + self.max_tokens > self.window:
            raise UsageError(
                f"{self.spec}: a prompt of {longest} tokens leaves no room for max_tokens="
                f"{self.max_tokens} in a window of {self.window}; show less, or ask for less"
            )
        return longest


def read_exported_policy(
    text: str, session: Session, settings: Settings | None = None
) -> ExportedPolicy:
    """Return the policy of `REFERENCE?max_tokens=&temperature=&top_p=`.

    A model of the hub is looked at where it was downloaded before.

    Raises:
        UsageError: for what no trainer can load, or a policy without a chat template.

    Example:
        >>> read_exported_policy("api:gpt", Session())
        Traceback (most recent call last):
        palate.errors.UsageError: api:gpt: an endpoint has no weights to train
    """
    spec = Spec.parse(f"policy:{text}")
    spec.only(("max_tokens", "temperature", "top_p"))
    reference = Reference.parse(spec.need_reference("ORG/MODEL?max_tokens=256"))
    if reference.place == "api":
        raise UsageError(f"{text}: an endpoint has no weights to train")
    if reference.revision is not None:
        problem = "not every trainer can load a revision; download it, and name the folder"
        raise UsageError(f"{text}: {problem}")
    how = read_sampling(spec, max_tokens=RESPONSE_TOKENS)
    here = reference.place != "hub"
    model = str(session.folder(reference).path) if here else reference.name
    folder = Path(model) if here else cached_snapshot(reference)
    template = window = None
    if folder is not None:
        tokenizer = load_part("AutoTokenizer", folder, text)
        template = ChatTemplate(tokenizer, settings)
        config = load_part("AutoConfig", folder, text)
        window = window_of(config.get_text_config(), tokenizer)
    return ExportedPolicy(text, model, *how[:3], template, window)


class PromptRow(NamedTuple):
    """One row's prompt; the row's id is all that a reward needs beside the response."""

    row: str
    user: str
    prompt: tuple[Message, ...]

    @property
    def messages(self) -> list[dict[str, str]]:
        """The prompt as trainers read it."""
        return [{"role": message.role, "content": message.content} for message in self.prompt]


def users_of(rows: Sequence[PromptRow]) -> int:
    """Return how many users rows are of."""
    return len({row.user for row in rows})


class PromptRows(NamedTuple):
    """Rows of different users."""

    train: Sequence[PromptRow]
    held_out: Sequence[PromptRow]


def prompt_rows(
    pairs: Dataset, policy: ExportedPolicy, context: Context, held_out: int, seed: int
) -> PromptRows:
    """Ask every row as `best_of_n` asks it, and hold out the rows of so many users.

    A text that spells a token of the policy's template is broken there too, where the policy's
    tokenizer lies here. Raises `UsageError` where nobody would be left to train on, or held out,
    for a person under two ids, and for a context that no policy may be shown.
    """
    split = refuse_shared(hold_out(pairs, held_out, seed))
    shown_parts = shown_to_policy(context, pairs, seed)

    def prompt_row(row: Question) -> PromptRow:
        turns = policy_prompt(row, shown_parts)
        safe = tuple(Message(role=turn.role, content=policy.safe(turn.content)) for turn in turns)
        return PromptRow(row.id, row.user_id, safe)

    return PromptRows(*([prompt_row(row) for row in part.rows] for part in split))
