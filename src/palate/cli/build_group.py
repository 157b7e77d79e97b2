"""palate build: a command for every kind of benchmark that can be made."""

from __future__ import annotations

import typer

from palate.cli.lazy import add_lazy

build = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Make a benchmark of what users wrote.",
)
add_lazy(
    build,
    "own-text",
    "Pair users' own texts with other texts on the same input, and leave out what leaks.",
    "palate.cli.build:own_text",
)
add_lazy(
    build,
    "pairs",
    "Let a language model write pairs to what users' own posts show, and drop what fails a check.",
    "palate.cli.build_pairs:pairs",
)


@build.callback()
def _group() -> None:
    """Make a benchmark of what users wrote."""
