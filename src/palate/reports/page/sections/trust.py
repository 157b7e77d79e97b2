"""Section 7: what may be wrong with a figure, each with its rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from markupsafe import Markup
from scipy.special import expit

from palate.contexts import shows
from palate.reports.alarms import alarms_of, fact_and_meaning
from palate.reports.noise import measured
from palate.reports.numbers import counted, plain
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


class Measured(NamedTuple):
    """What a check measures of one run."""

    size: float
    """How bad it is."""
    figure: str


class Check(NamedTuple):
    """One question to every run."""

    name: str
    measure: Callable[[Run], Measured | None]
    """None where it does not apply."""
    fine: float
    """The largest size that is fine."""
    look: float
    """The largest size to look at; above it a run is not to be used."""
    rule: str
    worst: str = "{} in the worst run"
    """How the largest figure of several runs is told."""

    def answer(self, size: float) -> Answer:
        """Return what to do with a run."""
        return "fine" if size <= self.fine else "look" if size <= self.look else "do not use"


def trust(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[object]:
    """Yield a table of checks, and a calibration curve where margins are log-odds."""
    rows = list(_rows(benchmark, names))
    if rows:
        columns = ["check", "where", "figure", "rule", "so"]
        yield Table(f"{benchmark.name}: checks", columns, rows, [], len(columns))
    yield from _calibration(benchmark, names, number)


def _rows(benchmark: BenchmarkRuns, names: Names) -> Iterator[list[str]]:
    for run, alarm in alarms_of(benchmark.runs):
        fact, meaning = fact_and_meaning(alarm)
        words = names.run(run), names.public(fact), f"usually {names.public(meaning)}"
        yield ["Numbers", *words, _answer("do not use")]
    baselines = {f.scorer for f in benchmark.findings if f.baseline}
    runs = [run for run in benchmark.runs if run.summary.scorer not in baselines]
    for check in CHECKS:
        by_answer: dict[Answer, list[tuple[Measured, Run]]] = {}
        for run in runs or benchmark.runs:
            if (measured := check.measure(run)) is not None:
                by_answer.setdefault(check.answer(measured.size), []).append((measured, run))
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


def _ties(run: Run) -> Measured:
    share = run.summary.ties / max(run.summary.n_pairs, 1)
    return Measured(share, f"{run.summary.ties:,} ({100 * share:.1f} %)")


def _unscored(run: Run) -> Measured:
    summary = run.summary
    reasons = "; ".join(counted(summary.unscored_reasons))
    low, high = summary.bounds or (None, None)
    ends = f": {reasons}; accuracy within {plain(low)} to {plain(high)}" if summary.unscored else ""
    return Measured(summary.unscored / max(summary.n_pairs, 1), f"{summary.unscored:,}{ends}")


def _cut(run: Run) -> Measured:
    summary = run.summary
    n = summary.parts_dropped + summary.split_texts
    text = f"{summary.parts_dropped:,} posts left out, {summary.split_texts:,} rows split"
    return Measured(n / max(summary.n_pairs, 1), text if n else "0")


def _leaks(run: Run) -> Measured | None:
    if shows(run.summary.context) != "stranger":
        return None
    n = run.summary.leaks_dropped
    return Measured(n / max(run.summary.n_pairs, 1), f"{n:,} posts dropped")


def _shortfall(run: Run) -> Measured | None:
    words = int(run.verdicts.own_words.sum())
    if shows(run.summary.context) != "stranger" or not words:
        return None
    share = run.summary.shortfall_words / words
    return Measured(share, f"{run.summary.shortfall_words:,} words ({100 * share:.1f} %)")


def _length(run: Run) -> Measured | None:
    accuracy, controlled = run.summary.accuracy.value, run.summary.length_controlled
    if accuracy is None or controlled is None or controlled.value is None:
        return None
    text = f"{plain(accuracy)}, length-controlled {plain(controlled.value)}"
    return Measured(abs(accuracy - controlled.value), text)


def _orders(run: Run) -> Measured | None:
    consistent = (run.summary.position_consistency or {}).get("consistent")
    if consistent is None:
        return None
    return Measured(1 - consistent, f"{100 * consistent:.0f} % of the pairs judged alike")


def _noise(run: Run, kind: str) -> Measured | None:
    noise, summary = run.summary.noise, run.summary
    if noise is None or noise.kind != kind:
        return None
    n = summary.n_pairs - summary.unscored
    if not noise.rows:
        return Measured(1.0, f"{noise.dtype}, not measured: {noise.note}")
    return Measured((noise.expected_flips or 0.0) / max(n, 1), measured(noise, n))


def _honest(run: Run) -> Measured | None:
    before = (run.summary.calibration or {}).get("before")
    if not before:
        return None
    return Measured(before["ece"], f"expected calibration error {plain(before['ece'])}")


AT_MOST = "at most {} in a run"
CHECKS = (
    Check("Ties", _ties, 0.05, 0.5, "fine up to 5 % of the pairs, do not use above 50 %", AT_MOST),
    Check("Unscored pairs", _unscored, 0.0, 0.1, "fine at none, do not use above 10 %"),
    Check("Texts cut to the model’s window", _cut, 0.0, 1.0, "fine at none"),
    Check(
        "Strangers’ posts that hold an answer",
        _leaks,
        0.1,
        1.0,
        "always dropped; fine to 10 % of rows",
        AT_MOST,
    ),
    Check(
        "Strangers’ posts shorter than the own",
        _shortfall,
        0.05,
        0.25,
        "fine up to 5 % of the words, do not use above 25 %",
        AT_MOST,
    ),
    Check(
        "Length",
        _length,
        0.03,
        0.1,
        "fine where control moves accuracy by up to 0.03, do not use above 0.10",
    ),
    Check(
        "A judge’s two orders",
        _orders,
        0.1,
        0.4,
        "fine where 90 % are judged alike, do not use below 60 %",
    ),
    Check(
        "Rounding in half precision",
        partial(_noise, kind="rounding"),
        0.01,
        1.0,
        "fine where 1 % of the verdicts or fewer are expected to flip in float32",
    ),
    Check(
        "Replies asked for again",
        partial(_noise, kind="asking again"),
        0.01,
        0.1,
        "fine where 1 % of the verdicts or fewer are expected to change, do not use above 10 %",
    ),
    Check(
        "Calibration",
        _honest,
        0.05,
        0.15,
        "fine up to 0.05; above 0.15 do not use margins as probabilities",
    ),
)


def _calibration(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[Picture]:
    some = [f for f in benchmark.findings if f.run.summary.calibration is not None][:8]
    curves = {names.run(f.run): _curve(f.run) for f in some}
    if not curves:
        return
    rows = [
        [name, plain(given), plain(won)] for name, points in curves.items() for given, won in points
    ]
    title = f"{benchmark.name}: probability given and share of wins"
    table = Table(title, ["scorer", "probability given", "share of wins"], rows)
    text = f"Every pair in both orientations, in {BINS} bins of equal size; on the dashed line a "
    text += "probability is what it says."
    name = f"calibration-{number}"
    title = f"Calibration, {benchmark.name}"
    yield Picture(name, title, text, table, calibration_lines(curves))


def _curve(run: Run) -> list[tuple[float, float]]:
    margins = run.verdicts.margins
    margins = np.sort(margins[~np.isnan(margins)])
    given = expit(np.concatenate([margins, -margins]))
    won = np.repeat([1.0, 0.0], margins.size)
    order = np.argsort(given, kind="stable")
    bins = np.array_split(order, min(BINS, given.size))
    return [(float(given[part].mean()), float(won[part].mean())) for part in bins]
