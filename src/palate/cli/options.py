"""Options that commands share, records of those that belong together, and what they make."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from palate.benchmarks import Dataset, LoadOptions, load_benchmark
from palate.cli.console import bars_of
from palate.cli.declare import argument, named, option
from palate.data import LayoutOptions, parse_columns, parse_posts_columns, parse_votes
from palate.engines import RequestFile
from palate.errors import DataError, UsageError, first_line
from palate.execution import Shard
from palate.records import Settings
from palate.reports import Form
from palate.reports.parts import check_picture
from palate.session import Session


class Target(StrEnum):
    """What scores are held against."""

    PREFERENCE = "preference"
    RATING = "rating"


LOCAL = ("127.0.0.1", "::1", "localhost")
"""Hosts that nobody else reaches."""
data = partial(option, panel="Data")
run = partial(option, panel="What is run")
here = partial(option, panel="Models in this process")
endpoint = partial(option, panel="Endpoints")
output = partial(option, panel="Output")
benchmark = partial(named, "palate.benchmarks")
scorer = partial(named, "palate.scorers")
_context = partial(named, "palate.contexts", panel="What is run")
_SHOWN = "What is shown of the user; may be repeated."

BENCHMARKS = benchmark(..., "Benchmark by name, file, folder or hf:// address.", panel="Data")
FILE = argument(None, "Benchmark, file, folder or hf:// address.")
FILE_TOO = benchmark(None, "The same, as -b.", panel="Data")
SCORERS = scorer(..., "Scorer; may be repeated.", panel="What is run")
SCORER = scorer(..., "Scorer.", panel="What is run")
CONTEXT = _context("none", "What is shown of the user.")
CONTEXTS = _context(["none"], _SHOWN)
USUAL_CONTEXTS = _context(
    None, _SHOWN, show_default="none, profile:5, stranger:5 where users have posts; else none"
)
ROOT = output(Path("runs"), "Folder under which runs are kept.", "-o", "--output")
DETAILS = output(False, "Print every figure and every note.")
FORMAT = output(Form.TABLE, "How results are printed.", "--format")
PICTURE = output(None, "Also draw it, into a PNG or SVG.", "--plot", callback=check_picture)
MIRRORS = data(None, "'only': the mirrored couples alone.")
AGREED = data(None, "'only': the pairs alone on which all users agree, three or more.")
SOURCE = data(None, "Local copy of a hub benchmark.")
SKIP_BAD_ROWS = data(False, "Leave bad rows out.")
ORDER_AS_IN_FILE = data(False, "Read no dates: the file's order counts, oldest first.")
SEED = run(0, "Seed of every draw.")
DEVICE = here(None, "Device for local models, e.g. cpu or cuda:0.")
TRUST = here(False, "Run code that a model's repository ships.")
TEMPLATE_DATE = here(
    None,
    "Day that chat templates are told which read the clock; 2024-07-26 unless told.",
    metavar="YYYY-MM-DD",
)
CHAT_TEMPLATE = here(
    None,
    "Chat template for tokenizers without one, or the name of one of several.",
    metavar="FILE|NAME",
)
CACHE = endpoint(None, "Folder of endpoints' replies; none is paid twice.")
MAX_COST = endpoint(None, "USD that endpoints may cost, in all.")


@dataclass(frozen=True)
class RowReading:
    """How the rows of a file are read."""

    columns: list[str] = data([], "palate's column=your column; may be repeated.", "--map")
    skip_bad_rows: bool = SKIP_BAD_ROWS
    order_as_in_file: bool = ORDER_AS_IN_FILE
    layout: str | None = data(
        None,
        "How rows are laid out; default by their columns, `none` for the contract alone.",
        metavar="NAME",
    )
    quoting: str | None = data(
        None, "Quotes in CSV: `none` are text, `minimal` stand around cells."
    )

    def options(self) -> LoadOptions:
        """Return what loading is told; raises `UsageError` for a `--map` that cannot be read."""
        return LoadOptions(
            columns=parse_columns(self.columns),
            skip_bad_rows=self.skip_bad_rows,
            order_as_in_file=self.order_as_in_file,
            layout=LayoutOptions(self.layout, quoting=self.quoting),
        )


@dataclass(frozen=True)
class DatedReading(RowReading):
    """Of which days rows are read."""

    since: str | None = data(
        None, "Rows from this day or moment on; it is one of them.", metavar="DAY"
    )
    until: str | None = data(
        None, "Rows and past choices before this day or moment.", metavar="DAY"
    )


@dataclass(frozen=True)
class LayoutReading(RowReading):
    """What is said of a layout that its columns do not tell."""

    vote: list[str] = data([], "What a vote's value means, as in 1=first; may be repeated.")
    pairs: str = data("all", "Of rated responses: all pairs, best-worst or adjacent ones.")
    posts: Path | None = data(None, "A second file, of what users wrote: user_id, text, date.")
    posts_map: list[str] = data([], "user_id, text or date=a column of the posts; may be repeated.")
    max_line: float = data(32, "Longest line or row read, in MiB.")

    def options(self) -> LoadOptions:
        """Return what loading is told; raises `UsageError` for a vote that cannot be read."""
        given = super().options()
        layout = replace(
            given.layout,
            pairs=self.pairs,
            votes=parse_votes(self.vote),
            posts=self.posts,
            posts_columns=parse_posts_columns(self.posts_map),
        )
        return replace(given, layout=layout, max_line=int(self.max_line * 2**20))


@dataclass(frozen=True)
class DatedLayoutReading(LayoutReading, DatedReading):
    """Rows of any layout and of some days."""


@dataclass(frozen=True)
class Loading(DatedReading):
    """Which rows of a benchmark are read, and from where."""

    split: str | None = data(None, "Split to read; default test, where there is one.")
    mirrors: str | None = MIRRORS
    agreed: str | None = AGREED
    source: Path | None = SOURCE
    revision: str | None = data(None, "Revision of a hub benchmark.")

    def options(self) -> LoadOptions:
        """Return what loading is told."""
        return replace(super().options(), source=self.source, revision=self.revision)

    def load(self, name: str, seed: int, limit: int | None = None, choices: Any = None) -> Dataset:
        """Load what is asked for of one benchmark; a bad row's error names what leaves it out."""
        try:
            return load_benchmark(
                name,
                split=self.split,
                mirrored=self.mirrors,
                agreed=self.agreed,
                limit=limit,
                seed=seed,
                since=self.since,
                until=self.until,
                options=self.options(),
                choices=choices,
            )
        except DataError as error:
            if error.line is None or self.skip_bad_rows:
                raise
            advised = f"{error.problem}; --skip-bad-rows leaves bad rows out"
            raise DataError(advised, file=error.file, line=error.line, field=error.field) from error


@dataclass(frozen=True)
class LoadingOfLayout(LayoutReading, Loading):
    """Which rows of any layout are read, and all that is said of it."""


@dataclass(frozen=True)
class LoadingWithChoices(Loading):
    """A draw of the rows, and users' earlier choices from a file of their own."""

    limit: int | None = data(None, "A seeded draw of N rows (couples, on mirrors).")
    choices: str | None = data(None, "File of the users' earlier choices, beside the adapt split.")

    def load_all(self, names: Sequence[str], seed: int) -> list[Dataset]:
        """Load every benchmark, with the earlier choices of its users."""
        if self.choices is None:
            return [self.load(name, seed, self.limit) for name in dict.fromkeys(names)]
        options = replace(self.options(), source=None)
        past = load_benchmark(self.choices, split="all", until=self.until, options=options)
        more = ("--choices", Path(self.choices).name)
        loaded = (self.load(name, seed, self.limit, past) for name in dict.fromkeys(names))
        return [replace(pairs, command=(*pairs.command, *more)) for pairs in loaded]


@dataclass(frozen=True)
class LoadingAnyLayout(LayoutReading, LoadingWithChoices):
    """Rows of any layout, and all that is said of it."""


@dataclass(frozen=True)
class Devices:
    """The seed, and where a model computes."""

    seed: int = SEED
    dtype: str | None = here(None, "float32, bfloat16 or float16 for local models.")
    device: str | None = DEVICE
    template_date: str | None = TEMPLATE_DATE
    chat_template: str | None = CHAT_TEMPLATE

    def settings(self) -> Settings:
        """Return checked settings; raises `UsageError` naming the flag that is wrong."""
        given = vars(self).items()
        return make_settings(**{k: v for k, v in given if k in Settings.model_fields})


@dataclass(frozen=True)
class Models(Devices):
    """Where a model computes, and what endpoints' replies may cost."""

    cache: str | None = CACHE
    max_cost: float | None = MAX_COST

    def session(self, quoting: str | None = None) -> Session:
        """Return what the command keeps; raises `UsageError` naming the flag that is wrong."""
        engine = getattr(self, "engine", None)
        return Session(cache=self.cache, max_cost=self.max_cost, engine=engine, quoting=quoting)

    @contextmanager
    def at_work(self, quoting: str | None = None) -> Iterator[dict[str, Any]]:
        """Give the session, settings and bars under which something is computed."""
        settings = self.settings()
        with self.session(quoting) as session, bars_of(session.ledger) as shown:
            yield {"session": session, "settings": settings, "start": shown.start}


@dataclass(frozen=True)
class Computing(Models):
    """What scores are computed with, in this process and behind endpoints."""

    batch_tokens: int | None = here(None, "Tokens at a time; by default 4096, on CUDA the fastest.")
    retry_unscored: bool = endpoint(False, "Ask again for unreadable replies.")
    engine: str | None = here(None, "Where to compute: here (the default) or e.g. ray?workers=4.")

    @contextmanager
    def on(
        self, names: Sequence[str], loading: LoadingWithChoices, root: Path
    ) -> Iterator[tuple[list[Dataset], dict[str, Any]]]:
        """Give the data of these names, and what a public function takes that computes."""
        self.settings()  # a wrong one is said before anything is read
        loaded = loading.load_all(names, self.seed)
        with self.at_work(loading.quoting) as work:
            yield loaded, work | {"root": root, "retry_unscored": self.retry_unscored}


@dataclass(frozen=True)
class ComputingLocally(Computing):
    """What else there is to say of models in this process."""

    attention: str | None = here(
        None, "Kernel of transformers, e.g. sdpa or eager; default shared prefixes."
    )
    compile: str = here(
        "off", "Compile layers: off, on, or auto (on accelerators in half precision)."
    )
    trust_remote_code: bool = TRUST


@dataclass(frozen=True)
class ComputingTwice(ComputingLocally):
    """Which part is computed, and which rows a second time: rounding and changed replies."""

    shard: str | None = run(
        None, "Compute this part alone; without it runs are written.", metavar="I/N"
    )
    noise_rows: int | None = here(
        None,
        "Rows of half precision to compute in float32 too; 0 for none.",
        show_default="16 or 2 %, whichever is more",
        min=0,
    )
    ask_again: float = endpoint(0.0, "Share of the rows to ask endpoints for once more, 0 to 1.")
    requests: Path | None = endpoint(None, "Write what the cache lacks; send nothing.")

    def part(self) -> Shard | None:
        """Return the part that is computed; raises `UsageError` for what does not go with it."""
        if self.shard is not None and self.retry_unscored:
            raise UsageError("--shard: leave out --retry-unscored; the last command asks again")
        return None if self.shard is None else Shard.parse(self.shard)

    def request_file(self) -> RequestFile | None:
        """Return where requests are written; raises `UsageError` for what does not go with it."""
        if self.requests is None:
            return None
        if self.cache is None:
            raise UsageError(f"--requests {self.requests}: needs --cache DIR, for the replies")
        for flag in ("retry_unscored", "ask_again", "max_cost", "engine", "shard"):
            if getattr(self, flag):
                raise UsageError(f"--requests sends nothing: leave out --{flag.replace('_', '-')}")
        return RequestFile(self.requests.expanduser())


def only_one(file: str | None, benchmark: str | None) -> str | None:
    """Return what was named, with `-b` or without; raises `UsageError` for two names."""
    if None not in (file, benchmark):
        raise UsageError(f"{file} and -b {benchmark}: name the data once")
    return file or benchmark


def make_settings(chat_template: str | None = None, **given: object) -> Settings:
    """Return checked settings; raises `UsageError` naming the flag that is wrong."""
    if chat_template is not None:
        given["chat_template"] = _template(chat_template)
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        wrong = error.errors()[0]
        flag = str(wrong["loc"][0]).replace("_", "-")
        raise UsageError(f"--{flag} {wrong['input']}: {wrong['msg']}") from error


def _template(given: str) -> str:
    """Return the text of a template's file; a plain word is a template's name."""
    file = Path(given).expanduser()
    if not file.is_file():
        if re.fullmatch(r"\w[\w-]*", given):
            return given
        raise UsageError(f"--chat-template {given}: no such file")
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"--chat-template {given}: {first_line(error)}") from error
    if "{" not in text:
        raise UsageError(f"--chat-template {given}: holds no Jinja, such as {{{{ messages }}}}")
    return text
