"""Every flag, defined once, and what several commands make of them."""

from __future__ import annotations

import re
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from palate.benchmarks.registry import GROUP as BENCHMARKS
from palate.cli.completion import named
from palate.contexts import GROUP as CONTEXTS
from palate.errors import UsageError, first_line
from palate.records import Settings
from palate.reports import Form
from palate.reports.pictures import check_picture
from palate.scorers import GROUP as SCORERS


class Target(StrEnum):
    """What scores are held against."""

    PREFERENCE = "preference"
    RATING = "rating"


_data = partial(typer.Option, rich_help_panel="Data")
_run = partial(typer.Option, rich_help_panel="What is run")
_local = partial(typer.Option, rich_help_panel="Models in this process")
_endpoint = partial(typer.Option, rich_help_panel="Endpoints")
_output = partial(typer.Option, rich_help_panel="Output")
benchmark_option = named(BENCHMARKS)
_context = partial(
    named(CONTEXTS),
    rich_help_panel="What is run",
    help="What is shown of the user; may be repeated.",
)

Benchmarks = Annotated[
    list[str],
    benchmark_option(
        rich_help_panel="Data", help="Benchmark by name, file, folder or hf:// address."
    ),
]
Scorers = Annotated[
    list[str],
    named(SCORERS)(rich_help_panel="What is run", help="Scorer; may be repeated."),
]
OneScorer = Annotated[str, named(SCORERS)(rich_help_panel="What is run", help="Scorer.")]
OneContext = Annotated[
    str, named(CONTEXTS)(rich_help_panel="What is run", help="What is shown of the user.")
]
Contexts = Annotated[list[str], _context()]
UsualContexts = Annotated[
    list[str] | None,
    _context(
        show_default="none, profile:5, stranger:5 where users have posts; else none",
    ),
]
Details = Annotated[bool, _output("--details", help="Print every figure and every note.")]
Root = Annotated[Path, _output("-o", "--output", help="Folder under which runs are kept.")]
Split = Annotated[str | None, _data(help="Split to read; default test, where there is one.")]
Mirrors = Annotated[str | None, _data(help="'only': the mirrored couples alone.")]
Limit = Annotated[int | None, _data(help="A seeded draw of N rows (couples, on mirrors).")]
Since = Annotated[
    str | None, _data(metavar="DAY", help="Rows from this day or moment on; it is one of them.")
]
Until = Annotated[
    str | None, _data(metavar="DAY", help="Rows and past choices before this day or moment.")
]
Seed = Annotated[int, _run(help="Seed of every draw.")]
Dtype = Annotated[str | None, _local(help="float32, bfloat16 or float16 for local models.")]
Device = Annotated[str | None, _local(help="Device for local models, e.g. cpu or cuda:0.")]
BatchTokens = Annotated[int, _local(help="Tokens a local model computes at a time.")]
Attention = Annotated[
    str | None,
    _local(help="Kernel of transformers, e.g. sdpa or eager; default shared prefixes."),
]
Map = Annotated[
    list[str] | None, _data("--map", help="palate's column=your column; may be repeated.")
]
Source = Annotated[Path | None, _data(help="Local copy of a hub benchmark.")]
Revision = Annotated[str | None, _data(help="Revision of a hub benchmark.")]
SkipBadRows = Annotated[bool, _data("--skip-bad-rows", help="Leave bad rows out.")]
OrderAsInFile = Annotated[
    bool, _data("--order-as-in-file", help="Read no dates: the file's order counts, oldest first.")
]
Layout = Annotated[
    str | None,
    _data(
        "--layout",
        metavar="NAME",
        help="How rows are laid out; default by their columns, `none` for the contract alone.",
    ),
]
Pairs = Annotated[
    str, _data("--pairs", help="Of rated responses: all pairs, best-worst or adjacent ones.")
]
Vote = Annotated[
    list[str] | None,
    _data("--vote", help="What a vote's value means, as in 1=first; may be repeated."),
]
Posts = Annotated[
    Path | None, _data("--posts", help="A second file, of what users wrote: user_id, text, date.")
]
MaxLine = Annotated[float, _data("--max-line", help="Longest line or row read, in MiB.")]
Trust = Annotated[
    bool, _local("--trust-remote-code", help="Run code that a model's repository ships.")
]
TemplateDate = Annotated[
    str | None,
    _local(
        metavar="YYYY-MM-DD",
        help="Day that chat templates are told which read the clock; 2024-07-26 unless told.",
    ),
]
ChatTemplate = Annotated[
    str | None,
    _local(
        metavar="FILE|NAME",
        help="Chat template for tokenizers without one, or the name of one of several.",
    ),
]
Cache = Annotated[
    str | None, _endpoint("--cache", help="Folder of endpoints' replies; none is paid twice.")
]
MaxCost = Annotated[
    float | None, _endpoint("--max-cost", help="USD that endpoints may cost, in all.")
]
Requests = Annotated[Path | None, _endpoint(help="Write what the cache lacks; send nothing.")]
Engine = Annotated[
    str | None,
    _local("--engine", help="Where to compute: here (the default) or e.g. ray?workers=4."),
]
Choices = Annotated[
    str | None, _data(help="File of the users' earlier choices, beside the adapt split.")
]
Shots = Annotated[
    list[int] | None,
    _run(help="Choices per user that personal scorers adapt to; may be repeated."),
]
Repeats = Annotated[int, _run(help="Draws of each number of shots.", min=1)]
Shard = Annotated[
    str | None, _run(metavar="I/N", help="Compute this part alone; without it runs are written.")
]
NoiseRows = Annotated[
    int | None,
    _local(
        "--noise-rows",
        help="Rows of half precision to compute in float32 too; 0 for none.",
        show_default="16 or 2 %, whichever is more",
        min=0,
    ),
]
AskAgain = Annotated[
    float,
    _endpoint("--ask-again", help="Share of the rows to ask endpoints for once more, 0 to 1."),
]
Strict = Annotated[bool, _output("--strict", help="Exit 1 if anything is unscored.")]
Retry = Annotated[bool, _endpoint("--retry-unscored", help="Ask again for unreadable replies.")]
Format = Annotated[Form, _output("--format", help="How results are printed.")]
By = Annotated[
    list[str] | None,
    _output("--by", help="Also by subgroup: subset, category, month or trait:NAME; repeat."),
]
Against = Annotated[
    Target, _output("--target", help="rating: also against the ratings that users gave.")
]
Picture = Annotated[
    Path | None,
    _output("--plot", callback=check_picture, help="Also draw it, into a PNG or SVG."),
]
DryRun = Annotated[bool, _output("--dry-run", help="Print plan and first prompt, run nothing.")]


def make_settings(
    seed: int = 0,
    dtype: str | None = None,
    device: str | None = None,
    chat_template: str | None = None,
    **more: object,
) -> Settings:
    """Return checked settings; raises `UsageError` naming the flag that is wrong."""
    given = {"seed": seed, "dtype": dtype, "device": device, **more}
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
