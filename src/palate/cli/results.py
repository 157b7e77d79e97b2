"""palate compare, report, verify: finished runs, side by side, on a page, and checked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from palate.cli import options as flags
from palate.cli.console import bars, err, show, show_text
from palate.cli.declare import argument, option
from palate.cli.options import LayoutReading, LoadingAnyLayout
from palate.comparison import MARGIN, compare
from palate.errors import RunError, UsageError
from palate.execution import SHARDS
from palate.reports import Form, comparison_tables
from palate.reports.page import report
from palate.runs import SUMMARY, load_runs, result_folders
from palate.session import Session
from palate.verification import BUNDLED, CheckedRun, DataOfRuns, Rescoring, verify_run

MOST_PRINTED = 5
RUNS = argument(..., "Run folders, or folders that hold them.")


def compare_runs(
    runs: list[Path] = RUNS,
    details: bool = flags.DETAILS,
    form: Form = flags.FORMAT,
    fail_if_worse: Path | None = option(
        None, "Exit 1 if one is worse than this run's scorer, p < 0.05.", metavar="RUN"
    ),
) -> None:
    """Compare finished runs on their common pairs: paired, by user and question, with Holm.

    Scorers are compared under one context at a time. With --fail-if-worse it exits 1 where a
    scorer is shown to be worse than that of the run, which is among the arguments.
    """
    comparison = compare(load_runs(runs))
    worse = [] if fail_if_worse is None else comparison.worse_than(load_runs(fail_if_worse))
    show(comparison_tables(comparison, details=details), form, comparison.document())
    for test in worse:
        (other,) = {test.a.scorer, test.b.scorer} - {test.better}
        by = f"by {abs(test.value or 0):.3f} (p = {test.p_holm:.3g})"
        line = f"{other} is worse than {test.better} under {test.a.context} {by}"
        err.print(line, style="bold red")
    if worse:
        raise typer.Exit(1)


def make_report(
    runs: list[Path] = argument(
        ..., "Folders that hold runs, best-of-n, decode, validity, curves."
    ),
    *,
    output: Path = option(..., "File of the page; it ends in .html.", "-o", "--output"),
    benchmark: list[str] = flags.benchmark(
        [], "Data whose texts are shown: a benchmark or a file."
    ),
    reading: LayoutReading,
    source: Path | None = flags.SOURCE,
    texts: bool = option(False, "Show texts of files of your own too, and ids of rows."),
    figures: Path | None = option(None, "Folder for every figure as SVG and PDF."),
    margin: float = option(MARGIN, "Largest fall in accuracy that is harmless."),
) -> None:
    """Make one self-contained page from finished runs: no model, no connection.

    Users are named U1, U2, …; no path is on the page.
    """
    options = replace(reading.options(), source=source)
    report(
        runs, output, data=benchmark, reading=options, texts=texts, figures=figures, margin=margin
    )
    err.print(f"wrote {output}")


def verify(
    runs: list[Path] = RUNS,
    *,
    benchmark: list[str] = flags.benchmark(
        [], "The runs' data, may be repeated; `tasting` needs none."
    ),
    rescore: int = option(0, "Score N rows of each run afresh, drawn by --seed.", metavar="N"),
    strict: bool = option(False, "Exit 1 where anything was not checked."),
    loading: LoadingAnyLayout,
    seed: int = flags.SEED,
    runs_seed: int = option(0, "The --seed that the runs are to have.", "--runs-seed", metavar="S"),
    device: str | None = flags.DEVICE,
    template_date: str | None = flags.TEMPLATE_DATE,
    chat_template: str | None = flags.CHAT_TEMPLATE,
) -> None:
    """Check runs that others made: rows, data, journals, figures; score some rows afresh.

    Data are read as these options say, not as the runs say. Exits 1 where a run is refused.
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
    data = DataOfRuns(loading.load_all(benchmark or [BUNDLED], runs_seed), runs_seed)
    checked, others = [], []
    with Session(quoting=loading.quoting) as session, bars() as shown:
        how = Rescoring(rescore, session, settings, shown.start)
        for folder in dict.fromkeys(folder for within in folders.values() for folder in within):
            run = verify_run(folder, data, how if rescore else None)
            if run is None:
                others.append(folder)
            else:
                checked.append(run)
                _print(run)
    unchecked = _print_end(checked, others, rescored=rescore > 0)
    if any(run.problems for run in checked) or (strict and unchecked):
        raise typer.Exit(1)


def _is_part(folder: Path, root: Path) -> bool:
    """Tell whether this is what a shard left to the command that writes the run."""
    return SHARDS in folder.relative_to(root).parts and not (folder / SUMMARY).exists()


def _print(run: CheckedRun) -> None:
    if not run.problems:
        word = "passed  " if run.without_data is None else "no data "
        lacks = "" if run.without_data is None else f"; name its data: -b {run.without_data}"
        show_text(f"{word} {run.folder}: {run.rows:,} rows{lacks}")
    for problem in run.problems[:MOST_PRINTED]:
        show_text(f"refused  {problem}")
    if (more := len(run.problems) - MOST_PRINTED) > 0:
        show_text(f"         {more:,} more of {run.folder}")


def _print_end(checked: Sequence[CheckedRun], others: Sequence[Path], *, rescored: bool) -> int:
    """Print what came of all; return how many things were not checked."""
    sound = [run for run in checked if not run.problems]
    passed = [run for run in sound if run.without_data is None]
    counts = [(len(passed), "passed"), (len(checked) - len(sound), "refused")]
    counts += (
        [(len(sound) - len(passed), "not held against data")] if len(sound) > len(passed) else []
    )
    show_text("\n" + ", ".join(f"{n:,} {word}" for n, word in counts))
    unchecked = Counter(what for run in sound for what in run.unseen)
    for what, n in unchecked.items():
        show_text(f"not checked of {n:,}: {what}")
    if not rescored:
        show_text("not checked: whether the scorers give these numbers (--rescore N)")
    for folder in others[:MOST_PRINTED]:
        show_text(f"not checked: {folder}, a result of another kind than runs")
    if len(others) > MOST_PRINTED:
        show_text(f"not checked: {len(others) - MOST_PRINTED:,} more of other kinds")
    return len(unchecked) + len(others) + (not rescored)
