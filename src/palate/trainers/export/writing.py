"""The files of an export, from a plan and the trainer's templates."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from palate.data import write_lines
from palate.errors import needing
from palate.files import whole_file, write_whole
from palate.trainers.export.plan import ExportPlan
from palate.trainers.export.targets import ExportTarget

SCRIPT = 0o755


def write_files(plan: ExportPlan, target: ExportTarget, folder: Path) -> None:
    """Write data, reward file, start script and README into an empty folder.

    Raises `UsageError` where Parquet is wanted and pyarrow is missing.
    """
    for name, rows in (("train", plan.rows.train), ("heldout", plan.rows.held_out)):
        lines = (target.columns(row, k, plan) for k, row in enumerate(rows))
        write = write_parquet if target.data == "parquet" else write_lines
        write(lines, folder / f"{name}.{target.data}")
    known = {
        "plan": plan,
        "policy": plan.policy,
        "batches": plan.batches,
        "target": target,
        "serve": serve_command(plan, target),
        "updates": updates_in_words(plan, target),
    }
    for name in target.files:
        text = _environment().get_template(f"{target.name}/{name}.jinja").render(known)
        write_whole(folder / name, text)
        if name.endswith(".sh"):
            (folder / name).chmod(SCRIPT)


def serve_command(plan: ExportPlan, target: ExportTarget) -> str:
    """Return the command that serves the scorer to this trainer."""
    return plan.served.command(plan.policy.end_of_turn if target.needs_end_of_turn else None)


def updates_in_words(plan: ExportPlan, target: ExportTarget) -> str | None:
    """Return how many updates the trainer makes of one pass over the rows, and how it makes more.

    None for a trainer that says so itself.
    """
    if target.more is None:
        return None
    plural = "" if plan.updates == 1 else "s"
    counted = f"{plan.updates:,} update{plural} of {plan.batches.update} answers"
    rest = len(plan.rows.train) % plan.batches.update
    if rest:
        rows = f"{rest} row{'' if rest == 1 else 's'}"
        counted += f", and one of {rows}" if target.keeps_rest else f", {rows} left out"
    return f"{counted}; for more: {target.start} {target.more}"


def write_parquet(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write a Parquet file; raises `UsageError` without pyarrow."""
    with needing(f"{path.name}: Parquet needs", "hub"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    with whole_file(path) as stream:
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), stream)


def python_text(text: str) -> str:
    """Return a text as Python writes it in double quotes.

    >>> python_text('a "b"')
    '"a \\\\"b\\\\""'
    """
    return json.dumps(text, ensure_ascii=False)


def hydra(text: str) -> str:
    r"""Return a text as a value of a Hydra override, whatever it holds.

    >>> hydra("/data/Ann's model, 2")
    "'/data/Ann\\'s model, 2'"
    """
    return "'" + text.replace("'", "\\'") + "'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("palate.trainers.export"),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(python=python_text, shell=shlex.quote, hydra=hydra)
    return environment
