"""palate verify: runs that others made, checked before they are believed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from palate.cli import options as flags
from palate.cli.console import bars, show_text
from palate.cli.data_options import LayoutReading
from palate.cli.flatten import flatten_options
from palate.errors import RunError, UsageError
from palate.execution import SHARDS
from palate.runs import SUMMARY, result_folders
from palate.session import Session
from palate.verification import CheckedRun, DataOfRuns, Rescoring, verify_run

MOST_PRINTED = 5


@flatten_options
def verify(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, or folders that hold them.")],
    *,
    benchmark: Annotated[
        str | None, flags.benchmark_option(help="The runs' data; the bundled ones need none.")
    ] = None,
    rescore: Annotated[
        int, typer.Option(metavar="N", help="Score N rows of each run afresh, drawn by --seed.")
    ] = 0,
    source: flags.Source = None,
    reading: LayoutReading,
    seed: flags.Seed = 0,
    device: flags.Device = None,
    template_date: flags.TemplateDate = None,
    chat_template: flags.ChatTemplate = None,
) -> None:
    """Check runs that others made: rows, data, journals, figures; score some rows afresh.

    Exits 1 where a run is refused.
    """
    if rescore < 0:
        raise UsageError(f"--rescore {rescore}: expected a number of rows, 0 for none")
    folders = {path: [it for it in result_folders(path) if not _is_part(it, path)] for path in runs}
    for path, within in folders.items():
        if not within:
            raise RunError(f"{path}: no run at or under this folder")
    settings = flags.make_settings(
        seed=seed, device=device, template_date=template_date, chat_template=chat_template
    )
    data = DataOfRuns(benchmark, replace(reading.options(), source=source))
    checked, others = [], 0
    with Session() as session, bars() as shown:
        how = Rescoring(rescore, session, settings, shown.start)
        for folder in dict.fromkeys(folder for within in folders.values() for folder in within):
            run = verify_run(folder, data, how if rescore else None)
            if run is None:
                others += 1
            else:
                checked.append(run)
                _print(run)
    _print_end(checked, others, rescored=rescore > 0)
    if any(run.problems for run in checked):
        raise typer.Exit(1)


def _is_part(folder: Path, root: Path) -> bool:
    """Tell whether this is what a shard left to the command that writes the run."""
    return SHARDS in folder.relative_to(root).parts and not (folder / SUMMARY).exists()


def _print(run: CheckedRun) -> None:
    if not run.problems:
        show_text(f"passed   {run.folder}: {run.rows:,} rows")
    for problem in run.problems[:MOST_PRINTED]:
        show_text(f"refused  {problem}")
    if (more := len(run.problems) - MOST_PRINTED) > 0:
        show_text(f"         {more:,} more of {run.folder}")


def _print_end(checked: Sequence[CheckedRun], others: int, *, rescored: bool) -> None:
    passed = [run for run in checked if not run.problems]
    show_text(f"\n{len(passed):,} passed, {len(checked) - len(passed):,} refused")
    for what, n in Counter(what for run in passed for what in run.unseen).items():
        show_text(f"not seen of {n:,}: {what}")
    rest = "rows that were not drawn" if rescored else "no row was scored afresh (--rescore N)"
    show_text(f"not seen: whether the scorer gives these numbers; {rest}")
    if others:
        show_text(f"not checked: {others:,} results of other kinds; only runs are")
