"""Every flag, defined once, and what several commands make of them."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from palate.errors import UsageError
from palate.records import Settings
from palate.reports import Form


class Target(StrEnum):
    """What scores are held against."""

    PREFERENCE = "preference"
    RATING = "rating"


Benchmarks = Annotated[
    list[str], typer.Option("-b", "--benchmark", help="Benchmark by name, or a file of pairs.")
]
Scorers = Annotated[list[str], typer.Option("-s", "--scorer", help="Scorer; may be repeated.")]
Contexts = Annotated[
    list[str], typer.Option("-c", "--context", help="What is shown of the user; may be repeated.")
]
Root = Annotated[Path, typer.Option("-o", "--output", help="Folder under which runs are kept.")]
Split = Annotated[str | None, typer.Option(help="Split to read; default test, where there is one.")]
Mirrors = Annotated[str | None, typer.Option(help="'only': the mirrored couples alone.")]
Limit = Annotated[int | None, typer.Option(help="A seeded draw of N rows (couples, on mirrors).")]
Seed = Annotated[int, typer.Option(help="Seed of every draw.")]
Dtype = Annotated[str | None, typer.Option(help="float32, bfloat16 or float16 for local models.")]
Device = Annotated[str | None, typer.Option(help="Device for local models, e.g. cpu or cuda:0.")]
BatchTokens = Annotated[int, typer.Option(help="Tokens a local model computes at a time.")]
Attention = Annotated[
    str | None,
    typer.Option(help="Kernel of transformers, e.g. sdpa or eager; default shared prefixes."),
]
Map = Annotated[
    list[str] | None, typer.Option("--map", help="palate's column=your column; may be repeated.")
]
Source = Annotated[Path | None, typer.Option(help="Local copy of a hub benchmark.")]
Revision = Annotated[str | None, typer.Option(help="Revision of a hub benchmark.")]
SkipBadRows = Annotated[bool, typer.Option("--skip-bad-rows", help="Leave bad rows out.")]
MaxLine = Annotated[float, typer.Option("--max-line", help="Longest line read, in MiB.")]
Trust = Annotated[
    bool, typer.Option("--trust-remote-code", help="Run code that a model's repository ships.")
]
Cache = Annotated[
    str | None, typer.Option("--cache", help="Folder of endpoints' replies; none is paid twice.")
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", help="USD that endpoints may cost, in all.")
]
Engine = Annotated[
    str | None,
    typer.Option("--engine", help="Where to compute: here (the default) or e.g. ray?workers=4."),
]
Choices = Annotated[
    str | None, typer.Option(help="File of the users' earlier choices, beside the adapt split.")
]
Shots = Annotated[
    list[int] | None,
    typer.Option(help="Choices per user that personal scorers adapt to; may be repeated."),
]
Repeats = Annotated[int, typer.Option(help="Draws of each number of shots.", min=1)]
Strict = Annotated[bool, typer.Option("--strict", help="Exit 1 if anything is unscored.")]
Retry = Annotated[bool, typer.Option("--retry-unscored", help="Ask again for unreadable replies.")]
Format = Annotated[Form, typer.Option("--format", help="How results are printed.")]
By = Annotated[
    list[str] | None,
    typer.Option("--by", help="Also by group: subset, category or trait:NAME; may be repeated."),
]
Against = Annotated[
    Target, typer.Option("--target", help="rating: also against the ratings that users gave.")
]
Picture = Annotated[Path | None, typer.Option("--plot", help="Also draw it, into a PNG or SVG.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print plan and first prompt, run nothing.")
]


def whole_numbers(flag: str, text: str, example: str) -> list[int]:
    """Return comma-separated numbers; raises `UsageError` for what is none."""
    parts = text.split(",")
    if not all(part.strip().isdecimal() for part in parts):
        raise UsageError(f"{flag} {text}: expected whole numbers such as {example}")
    return [int(part) for part in parts]


def make_settings(
    seed: int = 0, dtype: str | None = None, device: str | None = None, **more: object
) -> Settings:
    """Return checked settings; raises `UsageError` naming the flag that is wrong."""
    given = {"seed": seed, "dtype": dtype, "device": device, **more}
    try:
        return Settings.model_validate(given)
    except ValidationError as error:
        wrong = error.errors()[0]
        flag = str(wrong["loc"][0]).replace("_", "-")
        raise UsageError(f"--{flag} {wrong['input']}: {wrong['msg']}") from error
