"""palate replies: what a batch gave back, put into the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from palate.cli.console import show_text
from palate.engines.http import ReplyCache
from palate.engines.http.batch_files import keep_replies


def keep(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="What batches gave back.")],
    cache: Annotated[Path, typer.Option(help="The folder that was named beside --requests.")],
) -> None:
    """Keep the replies of batches, whose requests evaluate wrote.

    Requests without a reply are counted by reason.
    """
    replies = ReplyCache(cache.expanduser())
    replies.check("--cache")
    count, lacking = keep_replies(files, replies)
    reasons = ", ".join(f"{n:,} {reason}" for reason, n in lacking.most_common())
    show_text(f"kept in {cache}: {count:,}; without a reply: {reasons or 'none'}")
