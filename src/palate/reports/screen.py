"""The first screen of a grid: a row per scorer and context, and what it means in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rich.cells import cell_len

from palate.comparison import Finding, Grid, findings_of, oracle_runs
from palate.contexts import shows
from palate.records.arguments import grouped
from palate.reports.aligned import Axis, Column, aligned, folded, wrapped
from palate.reports.ceilings import blind_ceiling
from palate.reports.names import context_name, fitting, legend, short_names, size_name
from palate.reports.numbers import NONE, Number, figure, p_value, plain, point
from palate.reports.table import WIDTH, Table
from palate.reports.verdict import (
    alarm_lines,
    doubts,
    few_users,
    next_step,
    not_measured,
    power,
    verdict,
)
from palate.runs import Gain, Run, Summary
from palate.scorers import is_baseline

LONGEST_NAME = 24
WORDS = {
    "yes": "identity gain above 0, p < 0.05 (Holm, baselines apart)",
    "stranger's": "identity gain below 0, p < 0.05 (Holm)",
    "anyone's": "gains over nothing shown, not over a stranger's",
    "rounding": "p < 0.05, but rounding in half precision could turn it",
    "unsteady": "p < 0.05, but asking again could turn it",
    "not shown": "p of the identity gain is 0.05 or more",
    "blind": "the same for every user",
    "all ties": "decides no pair",
}


@dataclass(frozen=True)
class Screen:
    """One benchmark's rows, and the sentences below them."""

    title: str
    columns: Sequence[Column]
    rows: Sequence[tuple[str, ...]]
    axis: Axis | None
    """Where the intervals of `gains` are drawn, before the gain's own column."""
    gains: Sequence[Gain | None]
    closing: Sequence[str]
    notes: Sequence[str]

    def text(self, width: int = WIDTH) -> str:
        """Return it as plain text; where columns do not fit, the drawn intervals go first."""
        width = min(width, WIDTH)
        fit = (lines for lines in self._layouts() if max(map(cell_len, lines)) <= width)
        lines = next(fit, None) or folded(self._plain(), self.rows, self._lead, width)
        texts = [self.title], self.closing, self.notes
        title, *rest = ([line for text in some for line in wrapped(text, width)] for some in texts)
        blocks = title, [line.rstrip() for line in lines if self.rows], *rest
        return "\n\n".join("\n".join(block) for block in blocks if block)

    @property
    def _lead(self) -> int:
        return sum(column.left for column in self.columns[:2])

    def _layouts(self) -> Iterator[list[str]]:
        # The table ever narrower: with drawn intervals, without, without a context all share.
        at = next((k for k, column in enumerate(self.columns) if column.name == "gain"), None)
        if self.axis is not None and at is not None:
            for size in range(Axis.WIDEST, Axis.NARROWEST - 1, -1):
                yield self._with_axis(replace(self.axis, width=size), at)
        columns = self._plain()
        yield aligned(columns, self.rows)
        if len({row[1] for row in self.rows}) == 1 and columns[1].name == "context":
            group = f"accuracy, {self.rows[0][1]}"
            shown = [replace(c, group=group) for c in columns[2:5] if c.group == ACCURACY]
            columns[1:] = [*shown, *columns[2 + len(shown) :]]
            yield aligned(columns, [(row[0], *row[2:]) for row in self.rows])

    def _plain(self) -> list[Column]:
        return [replace(c, group=c.group.removesuffix(STRANGERS)) for c in self.columns]

    def _with_axis(self, axis: Axis, at: int) -> list[str]:
        columns, rows = list(self.columns), [list(row) for row in self.rows]
        columns.insert(at, Column(axis.header(), columns[at].group, left=True))
        for row, gain in zip(rows, self.gains, strict=True):
            row.insert(at, axis.drawn(gain))
        return aligned(columns, rows)

    def html(self) -> str:
        """Return it for a notebook."""
        return self.table().html()

    def table(self) -> Table:
        """Return it for Markdown, LaTeX or Arrow."""
        heads = [column.group if column.group == ACCURACY else "" for column in self.columns]
        names = [f"{c.group}, {c.name}" if c.group == ACCURACY else c.name for c in self.columns]
        rows = [list(row) for row in self.rows]
        if "gain" in names:
            at = names.index("gain")
            names[at] = f"{self.columns[at].group.removesuffix(STRANGERS)} [95 %]"
            for row, gain in zip(rows, self.gains, strict=True):
                row[at] = figure(gain, signed=True)
        notes = [*self.closing, *self.notes]
        return Table(self.title, names, rows, notes, self._lead, heads=heads)


ACCURACY, STRANGERS = "accuracy when shown", " over a stranger's"


def screens(grid: Grid, root: Path | None = None, *, hint: bool = False) -> list[Screen]:
    """Return a screen for each benchmark of a grid; `hint` names the option with every figure."""
    every, oracles = findings_of(grid), oracle_runs(grid)
    benchmarks = list(dict.fromkeys(run.summary.benchmark for run in grid.runs))
    parts = []
    for name in benchmarks:
        findings = [finding for finding in every if finding.benchmark == name]
        bounds = [run for run in oracles if run.summary.benchmark == name]
        # What to type next is said once, below the last.
        step = next_step(grid, findings, root, hint=hint) if name == benchmarks[-1] else ""
        here = [run for run in grid.runs if run.summary.benchmark == name]
        parts.append(_screen(here, findings, bounds, step))
    return parts


def _screen(
    here: Sequence[Run], findings: Sequence[Finding], oracles: Sequence[Run], step: str
) -> Screen:
    first = findings[0].run if findings else here[0]
    names = fitting(short_names(run.summary.scorer for run in here), LONGEST_NAME)
    contexts = fitting({f.context: context_name(f.context) for f in findings}, LONGEST_NAME)
    kind = "identity" if any(f.identity for f in findings) else "gain"
    gains = [getattr(f, kind) for f in findings]
    cells = [_cells(f, gain, names, contexts) for f, gain in zip(findings, gains, strict=True)]
    columns = _columns(findings, gains, mirrored=first.summary.mirrored_accuracy is not None)
    rows, shown_gains, like = _merged([[row[c.name] for c in columns] for row in cells], gains)
    sentences = [
        *alarm_lines(here, names.__getitem__),
        verdict(findings, names),
        *doubts(findings, names),
        few_users(findings),
        power(findings, names),
    ]
    shown = {f.scorer for f in findings} | {run.summary.scorer for run in oracles}
    notes = [
        *_rules(findings),
        *like,
        *_notes(here, names),
        *legend({spec: name for spec, name in names.items() if spec in shown}),
        *legend({spec: name for spec, name in contexts.items() if name != context_name(spec)}),
        *blind_ceiling(here),
        *[step] * bool(step),
    ]
    title, closing = _title(first), [text for text in sentences if text]
    return Screen(title, columns, rows, Axis.over(gains), shown_gains, closing, notes)


def _cells(
    finding: Finding, gain: Gain | None, names: Mapping[str, str], contexts: Mapping[str, str]
) -> dict[str, str]:
    summary = finding.run.summary
    return {
        "scorer": names[finding.scorer],
        "context": "state" if finding.of_state else contexts[finding.context],
        "nothing": _accuracy(finding.nothing),
        "own": _accuracy(finding.own_run),
        "stranger's": _accuracy(finding.stranger),
        "by user": point(summary.macro_accuracy),
        "same length": point(summary.length_controlled),
        "gain": plain(gain.value, signed=True) if gain else NONE,
        "p": p_value(gain.p_holm) if gain and gain.value else NONE,
        "finding": finding.word,
    }


def _accuracy(run: Run | None) -> Number:
    return plain(run.accuracy if run else None)


def _columns(
    findings: Sequence[Finding], gains: Sequence[Gain | None], *, mirrored: bool
) -> list[Column]:
    shown_own = any(f.own_run for f in findings)
    identity = any(f.identity for f in findings)
    columns = [Column("scorer", left=True), *[Column("context", left=True)] * shown_own]
    held = {
        "nothing": any(f.nothing for f in findings),
        "own": shown_own,
        "stranger's": any(f.stranger for f in findings),
    }
    columns += [Column(name, ACCURACY) for name, there in held.items() if there]
    if not mirrored:
        columns += [Column("by user"), Column("same length")]
    if any(gains):
        over = f"identity gain{STRANGERS}" if identity else "gain over nothing"
        columns += [Column("gain", over), Column("p", over)]
    return columns + [Column("finding", left=True)] * identity


def _merged(
    rows: Sequence[Sequence[str]], gains: Sequence[Gain | None]
) -> tuple[list[tuple[str, ...]], list[Gain | None], list[str]]:
    # Scorers with the same figures stand in one row; a note lists those that do not fit its cell.
    lines, notes, first = [], [], []
    both = zip(rows, gains, strict=True)
    for values, some in grouped(both, lambda both: tuple(both[0][1:])).items():
        names = [name for (name, *_), _ in some]
        cell = ", ".join(names)
        if len(cell) > LONGEST_NAME:
            cell = f"{names[0]} and {len(names) - 1} like it"
            notes.append(f"{cell}: {', '.join(names)}.")
        lines.append((cell, *values))
        first.append(some[0][1])
    return lines, first, notes


def _title(run: Run) -> str:
    summary = run.summary
    exact = run.verdicts.exact and summary.mirrored_accuracy is not None
    chance = " · a scorer that ignores the user gets 0.500" if exact else ""
    return f"{summary.benchmark} · {size_name(summary)}{chance}"


def _rules(findings: Sequence[Finding]) -> Iterator[str]:
    words = {finding.word for finding in findings}
    rules = {word: f"{word}: {rule}." for word, rule in WORDS.items() if word in words}
    ties = [f.run.summary.position_consistency for f in findings if f.word == "all ties"]
    votes = [each for each in ties if each and each["first_twice"] + each["second_twice"]]
    if votes:
        one_side = sum(each["first_twice"] + each["second_twice"] for each in votes)
        of = sum(each["n"] for each in votes)
        why = f"in {one_side:,} of {of:,} both orders pick the side, not the answer."
        rules["all ties"] = f"{rules['all ties'][:-1]}: {why}"
    if rules:
        # Each in one piece.
        yield "   ".join(rule.replace(" ", "\u00a0") for rule in rules.values())
    if any(finding.of_state for finding in findings):
        yield "state: what a personal model knows of nobody (nothing), the user or a stranger."


def _notes(runs: Sequence[Run], names: Mapping[str, str]) -> Iterator[str]:
    summaries = [run.summary for run in runs]
    bounds = [
        f"{names[s.scorer]} {plain(s.accuracy.value)} ({context_name(s.context)})"
        for s in summaries
        if s.oracle and shows(s.context) != "pressure" and not is_baseline(s.scorer)
    ]
    if bounds:
        yield f"Upper bound, shown gold: {', '.join(bounds)}."
    if undecided := max((s.undecided_rows for s in summaries), default=0):
        yield f"Of the rows read, {undecided:,} are undecided and have no verdict."
    yield from _left_out(summaries, names)
    yield from not_measured(summaries, names)


MANY = 0.1
"""Searches without a word in common are told from so large a share of the rows on."""
COUNTS = {
    "unscored": "rows unscored",
    "parts_dropped": "shown parts cut to the window",
    "split_texts": "rows with a text split for the embedder",
    "leaks_dropped": "shown parts dropped that held the answer",
    "shortfall_words": "words fewer in strangers' posts than in the users' own",
    "searches_unmatched": "searches without a word in common, which show the latest posts",
}


def _left_out(summaries: Iterable[Summary], names: Mapping[str, str]) -> Iterator[str]:
    # One line per context: what was left out, how often, of which scorers.
    for context, some in grouped(summaries, lambda s: s.context).items():
        counts = {
            (what, names[summary.scorer]): n for summary in some for what, n in _counts(summary)
        }
        listed = "; ".join(
            f"{max(counts[place] for place in places):,} {what} "
            f"({', '.join(name for _, name in places)})"
            for what, places in grouped(counts, lambda place: place[0]).items()
        )
        if listed:
            yield f"{context_name(context)}: {listed}."


def _counts(summary: Summary) -> Iterator[tuple[str, int]]:
    for field, what in COUNTS.items():
        n = getattr(summary, field) or 0
        if n > (MANY * summary.n_pairs if field == "searches_unmatched" else 0):
            yield what, n
    for kind, n in (summary.lacking or {}).items():
        yield f"rows shown no {kind}", n
