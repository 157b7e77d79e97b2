"""Users and checks on the page: who is served badly, subsets, what may be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.special import expit

from palate.contexts import shows
from palate.reports.contents import BenchmarkRuns
from palate.reports.names import Names
from palate.reports.numbers import NONE, count, counted, figure, plain
from palate.reports.parts import Picture, symbol
from palate.reports.plots import calibration_lines, subset_panels, user_dots
from palate.reports.table import Table
from palate.reports.verdict import alarms_of, fact_and_meaning, measured
from palate.runs import Run, Summary

MOST_PANELS, MOST_ROWS = 6, 12


def users(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[object]:
    """Yield how accuracy is spread over users, the worst served first; not of mirrored couples.

    There the two users of a couple make 0.500 together for a scorer that ignores them.
    """
    if benchmark.mirrored:
        return
    some = (benchmark.main_findings or benchmark.findings)[:MOST_PANELS]
    labels = names.findings(some)
    means = {name: _by_user(f.run, names) for name, f in zip(labels, some, strict=True)}
    drawn = {
        name: (np.array([mean for mean, _ in of.values()]), np.array([n for _, n in of.values()]))
        for name, of in means.items()
        if of
    }
    if not drawn:
        return
    known = sorted({user for of in means.values() for user in of}, key=lambda u: int(u[1:]))
    rows = []
    for user in known:
        cells = [of.get(user) for of in means.values()]
        pairs = max(cell[1] for cell in cells if cell is not None)
        rows.append([user, count(pairs), *(plain(cell[0]) if cell else NONE for cell in cells)])
    columns: dict[str, Callable[[tuple[str, Summary]], str]] = {
        "scorer": lambda of: of[0],
        "accuracy": lambda of: figure(of[1].accuracy),
        "mean of users": lambda of: figure(of[1].macro_accuracy),
        "worst tenth, raw": lambda of: plain((of[1].worst_decile or {}).get("raw")),
        "shrunken": lambda of: plain((of[1].worst_decile or {}).get("shrunken")),
    }
    yield Table.of(
        f"{benchmark.name}: the tenth of the users who are served worst",
        zip(labels, (f.run.summary for f in some), strict=True),
        columns,
        ["Raw is low by luck where users have few pairs. Shrunken is corrected for that luck."],
    )
    yield Picture(
        f"users-{number}",
        f"Accuracy by user, {benchmark.name}",
        "A dot is a user, the worst served on the left. Its size is how many pairs the user has. "
        "The dashed line is 0.5.",
        Table(f"{benchmark.name}: accuracy by user", ["user", "pairs", *labels], rows),
        user_dots(drawn),
    )


def _by_user(run: Run, names: Names) -> dict[str, tuple[float, int]]:
    verdicts = run.verdicts
    values: NDArray[np.float64] = verdicts.values
    scored = ~np.isnan(values)
    owners, codes = np.unique(verdicts.users[scored], return_inverse=True)
    counts = np.bincount(codes, minlength=len(owners))
    sums = np.bincount(codes, values[scored], minlength=len(owners))
    return {
        names.user(user): (total / n, n)
        for user, total, n in zip(owners.tolist(), sums.tolist(), counts.tolist(), strict=True)
    }


def subsets(benchmark: BenchmarkRuns, names: Names, number: int) -> Iterator[Picture]:
    """Yield accuracy by subset, all on one axis; of subsets that every scorer has."""
    some = (benchmark.main_findings or benchmark.findings)[:MOST_ROWS]
    labels = names.findings(some)
    by_scorer = [f.run.summary.subsets for f in some]
    sizes: dict[str, int] = {}
    for name, estimate in (item for subsets in by_scorer for item in subsets.items()):
        sizes[name] = max(sizes.get(name, 0), estimate.n)
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:MOST_ROWS]
    rows = {
        name: list(zip(labels, [subsets[name] for subsets in by_scorer], strict=True))
        for name in sorted(largest)
        if all(name in subsets for subsets in by_scorer)
    }
    if len(rows) < 2:
        return
    cells = [
        [name, count(sizes[name]), *(figure(estimate) for _, estimate in each)]
        for name, each in rows.items()
    ]
    unit = "couples" if benchmark.mirrored else "pairs"
    table = Table(f"{benchmark.name}: accuracy by subset", ["subset", unit, *labels], cells)
    yield Picture(
        f"subsets-{number}",
        f"Accuracy by subset, {benchmark.name}",
        "Each panel is a subset; a dot is a scorer’s accuracy with the user’s own posts, a line "
        "its 95 % interval.",
        table,
        subset_panels(rows, 0.5 if benchmark.mirrored else None),
    )


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
        data = max((run.summary for run in benchmark.runs), key=lambda s: s.bad_rows)
        left_out = counted({"bad rows": data.bad_rows, "votes for neither": data.undecided_rows})
        notes = [f"Left out of the data: {', '.join(left_out)}."] if left_out else []
        yield Table(f"{benchmark.name}: checks", columns, rows, notes, len(columns))
    yield from _calibration(benchmark, names, number)


def _rows(benchmark: BenchmarkRuns, names: Names) -> Iterator[list[str]]:
    for run, alarm in alarms_of(benchmark.runs):
        fact, meaning = fact_and_meaning(alarm)
        words = names.run(run), names.public(fact), f"usually {names.public(meaning)}"
        yield ["Numbers", *words, _answer("do not use")]
    baselines = {f.scorer for f in benchmark.findings if f.baseline}
    runs = [run for run in benchmark.runs if run.summary.scorer not in baselines]
    for check in CHECKS:
        found = [(sized, run) for run in runs or benchmark.runs if (sized := check.measure(run))]
        for answer in ORDER:
            some = [each for each in found if check.answer(each[0].size) == answer]
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


def _share(run: Run, n: int, text: str) -> Measured:
    return Measured(n / max(run.summary.n_pairs, 1), text)


def _ties(run: Run) -> Measured:
    ties = run.summary.ties
    return _share(run, ties, f"{ties:,} ({100 * (ties / max(run.summary.n_pairs, 1)):.1f} %)")


def _unscored(run: Run) -> Measured:
    summary = run.summary
    reasons = "; ".join(counted(summary.unscored_reasons))
    ends = " to ".join(map(plain, summary.bounds or (None, None)))
    more = f": {reasons}; accuracy within {ends}" if summary.unscored else ""
    return _share(run, summary.unscored, f"{summary.unscored:,}{more}")


def _cut(run: Run) -> Measured:
    dropped, split = run.summary.parts_dropped, run.summary.split_texts
    text = f"{dropped:,} posts left out, {split:,} rows split" if dropped + split else "0"
    return _share(run, dropped + split, text)


def _leaks(run: Run) -> Measured | None:
    n = run.summary.leaks_dropped
    of_stranger = shows(run.summary.context) == "stranger"
    return _share(run, n, f"{n:,} posts dropped") if of_stranger else None


def _shortfall(run: Run) -> Measured | None:
    words, lacking = int(run.verdicts.own_words.sum()), run.summary.shortfall_words
    if shows(run.summary.context) != "stranger" or not words:
        return None
    return Measured(lacking / words, f"{lacking:,} words ({100 * (lacking / words):.1f} %)")


def _length(run: Run) -> Measured | None:
    accuracy, controlled = run.summary.accuracy.value, run.summary.length_controlled
    if accuracy is None or controlled is None or controlled.value is None:
        return None
    text = f"{plain(accuracy)}, same length {plain(controlled.value)}"
    return Measured(abs(accuracy - controlled.value), text)


def _orders(run: Run) -> Measured | None:
    consistent = (run.summary.position_consistency or {}).get("consistent")
    if consistent is None:
        return None
    return Measured(1 - consistent, f"{100 * consistent:.0f} % of the pairs judged alike")


def _noise(run: Run, kind: str) -> Measured | None:
    noise, scored = run.summary.noise, run.summary.n_pairs - run.summary.unscored
    if noise is None or noise.kind != kind:
        return None
    if not noise.rows:
        return Measured(1.0, f"{noise.dtype}, not measured: {noise.note}")
    return Measured((noise.expected_flips or 0.0) / max(scored, 1), measured(noise, scored))


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
    about = f"{benchmark.name}: probability given and share of wins"
    table = Table(about, ["scorer", "probability given", "share of wins"], rows)
    text = f"Every pair in both orientations, in {BINS} bins of equal size; on the dashed line a "
    text += "probability is what it says."
    title, drawing = f"Calibration, {benchmark.name}", calibration_lines(curves)
    yield Picture(f"calibration-{number}", title, text, table, drawing)


def _curve(run: Run) -> list[tuple[float, float]]:
    margins = run.verdicts.margins
    margins = np.sort(margins[~np.isnan(margins)])
    probability = expit(np.concatenate([margins, -margins]))
    won = np.repeat([1.0, 0.0], margins.size)
    order = np.argsort(probability, kind="stable")
    bins = np.array_split(order, min(BINS, probability.size))
    return [(float(probability[part].mean()), float(won[part].mean())) for part in bins]
