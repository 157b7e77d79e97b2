"""Section 7: what may be wrong with a figure, each with its rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.special import expit

from palate.reports.numbers import plain
from palate.reports.page.contents import BenchmarkRuns
from palate.reports.page.figures.plots import calibration_lines
from palate.reports.page.names import Names
from palate.reports.page.parts import Picture, symbol
from palate.reports.table import Table
from palate.runs import Run

Answer = Literal["fine", "look", "do not use"]
MARKS = {"fine": "check", "look": "look", "do not use": "cross"}
ORDER: tuple[Answer, ...] = ("do not use", "look", "fine")
BINS = 10


class CheckResult(NamedTuple):
    """What a check finds of one run."""

    answer: Answer
    figure: str
    size: float
    """How bad it is: the worst run of an answer is named."""


class Check(NamedTuple):
    """One question to every run; None where it does not apply."""

    name: str
    ask: Callable[[Run], CheckResult | None]
    rule: str
    worst: str = "{} in the worst run"
    """How the largest figure of several runs is told."""


def trust(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[object]:
    """Yield a table of checks, and a calibration curve where margins are log-odds."""
    rows = list(_rows(benchmark, names))
    if rows:
        columns = ["check", "where", "figure", "rule", "so"]
        yield Table(f"{benchmark.name}: checks", columns, rows, [], len(columns))
    yield from _calibration(benchmark, names, number)


def _rows(benchmark: BenchmarkRuns, names: Names) -> Iterator[list[str]]:
    baselines = {f.scorer for f in benchmark.findings if f.baseline}
    runs = [run for run in benchmark.runs if run.summary.scorer not in baselines]
    for check in CHECKS:
        by_answer: dict[Answer, list[tuple[CheckResult, Run]]] = {}
        for run in runs or benchmark.runs:
            result = check.ask(run)
            if result is not None:
                by_answer.setdefault(result.answer, []).append((result, run))
        for answer in ORDER:
            some = by_answer.get(answer)
            if not some:
                continue
            worst, run = max(some, key=lambda each: each[0].size)
            others = f" and {len(some) - 1} more" if len(some) > 1 else ""
            where, figure = f"{names.run(run)}{others}", names.public(worst.figure)
            if answer == "fine" and len(some) > 1:
                where = f"{len(some)} runs"
                figure = check.worst.format(figure) if worst.size else figure
            cells = [check.name, where, figure, check.rule]
            yield [*(cell.replace(" %", "\u00a0%") for cell in cells), _answer(answer)]


def _answer(answer: Answer) -> Markup:
    kind = "bad" if answer == "do not use" else "fine"
    return Markup('<span class="mark-{}">{}{}</span>').format(kind, symbol(MARKS[answer]), answer)


def _grade(size: float, look: float, stop: float, text: str) -> CheckResult:
    answer: Answer = "fine" if size <= look else "look" if size <= stop else "do not use"
    return CheckResult(answer, text, size)


def _ties(run: Run) -> CheckResult:
    share = run.summary.ties / max(run.summary.n_pairs, 1)
    return _grade(share, 0.05, 0.5, f"{run.summary.ties:,} ({100 * share:.1f} %)")


def _unscored(run: Run) -> CheckResult:
    summary = run.summary
    share = summary.unscored / max(summary.n_pairs, 1)
    reasons = "; ".join(f"{n:,} {reason}" for reason, n in summary.unscored_reasons.items())
    low, high = summary.bounds or (None, None)
    ends = f": {reasons}; accuracy within {plain(low)} to {plain(high)}" if summary.unscored else ""
    return _grade(share, 0.0, 0.1, f"{summary.unscored:,}{ends}")


def _cut(run: Run) -> CheckResult:
    summary = run.summary
    n = summary.parts_dropped + summary.split_texts
    text = f"{summary.parts_dropped:,} posts left out, {summary.split_texts:,} rows split"
    return _grade(n / max(summary.n_pairs, 1), 0.0, 1.0, text if n else "0")


def _leaks(run: Run) -> CheckResult | None:
    if "stranger" not in run.summary.context:
        return None
    n = run.summary.leaks_dropped
    return _grade(n / max(run.summary.n_pairs, 1), 0.1, 1.0, f"{n:,} posts dropped")


def _shortfall(run: Run) -> CheckResult | None:
    words = int(run.verdicts.own_words.sum())
    if "stranger" not in run.summary.context or not words:
        return None
    share = run.summary.shortfall_words / words
    return _grade(share, 0.05, 0.25, f"{run.summary.shortfall_words:,} words ({100 * share:.1f} %)")


def _length(run: Run) -> CheckResult | None:
    accuracy, controlled = run.summary.accuracy.value, run.summary.length_controlled
    if accuracy is None or controlled is None or controlled.value is None:
        return None
    difference = abs(accuracy - controlled.value)
    text = f"{plain(accuracy)}, length-controlled {plain(controlled.value)}"
    return _grade(difference, 0.03, 0.1, text)


def _orders(run: Run) -> CheckResult | None:
    consistent = (run.summary.position_consistency or {}).get("consistent")
    if consistent is None:
        return None
    return _grade(1 - consistent, 0.1, 0.4, f"{100 * consistent:.0f} % of the pairs judged alike")


def _honest(run: Run) -> CheckResult | None:
    before = (run.summary.calibration or {}).get("before")
    if not before:
        return None
    return _grade(before["ece"], 0.05, 0.15, f"expected calibration error {plain(before['ece'])}")


AT_MOST = "at most {} in a run"
CHECKS = (
    Check("Ties", _ties, "fine up to 5 % of the pairs, do not use above 50 %", AT_MOST),
    Check("Unscored pairs", _unscored, "fine at none, do not use above 10 %"),
    Check("Texts cut to the model’s window", _cut, "fine at none"),
    Check(
        "Strangers’ posts that hold an answer", _leaks, "always dropped; fine to 10 % of rows",
        AT_MOST,
    ),
    Check(
        "Strangers’ posts shorter than the own", _shortfall,
        "fine up to 5 % of the words, do not use above 25 %", AT_MOST,
    ),
    Check(
        "Length", _length, "fine where control moves accuracy by up to 0.03, do not use above 0.10"
    ),
    Check(
        "A judge’s two orders", _orders, "fine where 90 % are judged alike, do not use below 60 %"
    ),
    Check(
        "Calibration", _honest,
        "fine up to 0.05; above 0.15 do not use margins as probabilities",
    ),
)  # fmt: skip


def _calibration(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[Picture]:
    some = [f for f in benchmark.findings if f.run.summary.calibration is not None][:8]
    curves = {names.run(f.run): _curve(f.run) for f in some}
    curves = {name: curve for name, curve in curves.items() if curve[0].size}
    if not curves:
        return
    rows = [
        [name, plain(given), plain(won)]
        for name, curve in curves.items()
        for given, won in zip(*(column.tolist() for column in curve), strict=True)
    ]
    title = f"{benchmark.name}: probability given and share of wins"
    table = Table(title, ["scorer", "probability given", "share of wins"], rows)
    text = f"Every pair in both orientations, in {BINS} bins of equal size; on the dashed line a "
    text += "probability is what it says."
    name = f"calibration-{number}"
    title = f"Calibration, {benchmark.name}"
    yield Picture(name, title, text, table, calibration_lines(curves))


def _curve(run: Run) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    margins = run.verdicts.margins
    margins = np.sort(margins[~np.isnan(margins)])
    given = expit(np.concatenate([margins, -margins]))
    won = np.repeat([1.0, 0.0], margins.size)
    order = np.argsort(given, kind="stable")
    bins: Sequence[NDArray[np.int64]] = [
        part for part in np.array_split(order, min(BINS, given.size)) if part.size
    ]
    means = [(given[part].mean(), won[part].mean()) for part in bins]
    x, y = np.array(means).reshape(-1, 2).T
    return x, y
