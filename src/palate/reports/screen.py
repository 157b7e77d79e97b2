"""The first screen of a grid: a row per scorer and context, and what it means in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from palate.comparison import Finding, Grid, findings_of, oracle_runs
from palate.reports.alarms import alarm_lines
from palate.reports.aligned import Column, aligned, wrapped
from palate.reports.axis import Axis
from palate.reports.names import context_name, fitting, legend, short_names, size_name
from palate.reports.noise import doubts, not_measured
from palate.reports.numbers import NONE, Number, p_value, plain, point
from palate.reports.table import Table
from palate.reports.verdict import few_users, next_step, power, verdict
from palate.runs import Gain, Run, Summary
from palate.scorers import is_baseline

WIDTH = 100
"""The screen is never wider."""
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
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    axis: Axis | None
    """Where the intervals of `gains` are drawn, before the gain's own column."""
    gains: tuple[Gain | None, ...]
    notes: tuple[str, ...]
    closing: tuple[str, ...]

    def text(self, width: int = WIDTH) -> str:
        """Return it as plain text; where columns do not fit, the drawn intervals go first."""
        width = min(width, WIDTH)
        for lines in self._layouts():
            if len(lines[0]) <= width:
                break
        notes = [line for note in self.notes for line in wrapped(note, width)]
        closing = [line for text in self.closing for line in wrapped(text, width)]
        blocks = wrapped(self.title, width), [line.rstrip() for line in lines], closing, notes
        return "\n\n".join("\n".join(block) for block in blocks if block)

    def _layouts(self) -> Iterator[list[str]]:
        # The table ever narrower: with drawn intervals, without, without a context all share.
        at = next((k for k, column in enumerate(self.columns) if column.name == "gain"), None)
        if self.axis is not None and at is not None:
            for size in range(Axis.WIDEST, Axis.NARROWEST - 1, -1):
                yield self._with_axis(replace(self.axis, width=size), at)
        columns = [replace(c, group=c.group.removesuffix(STRANGERS)) for c in self.columns]
        yield aligned(columns, self.rows)
        if len({row[1] for row in self.rows}) == 1 and columns[1].name == "context":
            rows = [(row[0], *row[2:]) for row in self.rows]
            columns[1:3] = [replace(columns[2], group=f"accuracy, {self.rows[0][1]}")]
            columns[2:4] = [
                replace(c, group=columns[1].group) if c.group == ACCURACY else c
                for c in columns[2:4]
            ]
            yield aligned(columns, rows)

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
        names = [f"{c.group}, {c.name}" if c.group == ACCURACY else c.name for c in self.columns]
        left = sum(1 for c in self.columns[:2] if c.left)
        return Table(self.title, names, self.rows, [*self.closing, *self.notes], left)


ACCURACY, STRANGERS = "accuracy when shown", " over a stranger's"


def screens(grid: Grid, root: Path | None = None, *, hint: bool = False) -> list[Screen]:
    """Return a screen for each benchmark of a grid; `hint` names the option with every figure."""
    benchmarks = list(dict.fromkeys(run.summary.benchmark for run in grid.runs))
    found = findings_of(grid)
    parts = []
    for name in benchmarks:
        findings = [finding for finding in found if finding.benchmark == name]
        oracles = [run for run in oracle_runs(grid) if run.summary.benchmark == name]
        last = name == benchmarks[-1]
        parts.append(_screen(grid, findings, oracles, root if last else None, last=last, hint=hint))
    return parts


def _screen(
    grid: Grid,
    findings: Sequence[Finding],
    oracles: Sequence[Run],
    root: Path | None,
    *,
    last: bool,
    hint: bool,
) -> Screen:
    runs = [f.run for f in findings] or list(oracles)
    summary = runs[0].summary
    here = [run for run in grid.runs if run.summary.benchmark == summary.benchmark]
    names = fitting(short_names(run.summary.scorer for run in here), LONGEST_NAME)
    contexts = fitting({f.context: context_name(f.context) for f in findings}, LONGEST_NAME)
    kind = "identity" if any(f.identity for f in findings) else "gain"
    gains = [getattr(f, kind) for f in findings]
    cells = [_cells(f, gain, names, contexts) for f, gain in zip(findings, gains, strict=True)]
    columns = _columns(findings, gains, kind, mirrored=summary.mirrored_accuracy is not None)
    rows, shown_gains, like = _merged([[row[c.name] for c in columns] for row in cells], gains)
    sentences = [
        *alarm_lines(here, names.__getitem__),
        verdict(findings, names),
        *doubts(findings, names),
        few_users(findings),
        power(findings, names),
    ]
    closing = [text for text in sentences if text]
    step = [text for text in [next_step(grid, findings, root, hint=hint)] if text and last]
    return Screen(
        title=_title(summary),
        columns=tuple(columns),
        rows=tuple(rows),
        axis=Axis.over(gains),
        gains=tuple(shown_gains),
        notes=(
            *_rules(findings),
            *like,
            *_notes(here, names),
            *_legends(findings, oracles, names, contexts),
            *step,
        ),
        closing=tuple(closing),
    )


def _cells(
    finding: Finding, gain: Gain | None, names: Mapping[str, str], contexts: Mapping[str, str]
) -> dict[str, str]:
    summary = finding.run.summary
    baseline_only = finding.nothing is finding.run
    return {
        "scorer": names[finding.scorer],
        "context": "state" if finding.of_state else contexts[finding.context],
        "nothing": _accuracy(finding.nothing),
        "own": NONE if baseline_only else _accuracy(finding.run),
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
    findings: Sequence[Finding], gains: Sequence[Gain | None], kind: str, *, mirrored: bool
) -> list[Column]:
    columns = [Column("scorer", left=True)]
    if any(f.nothing is not f.run for f in findings):
        columns.append(Column("context", left=True))
    held = {
        "nothing": any(f.nothing for f in findings),
        "own": any(f.nothing is not f.run for f in findings),
        "stranger's": any(f.stranger for f in findings),
    }
    columns += [Column(name, ACCURACY) for name, there in held.items() if there]
    if not mirrored:
        columns += [Column("by user"), Column("same length")]
    if any(gains):
        over = f"identity gain{STRANGERS}" if kind == "identity" else "gain over nothing"
        columns += [Column("gain", over), Column("p", over)]
    if any(f.identity for f in findings):
        columns.append(Column("finding", left=True))
    return columns


def _merged(
    rows: Sequence[Sequence[str]], gains: Sequence[Gain | None]
) -> tuple[list[tuple[str, ...]], list[Gain | None], list[str]]:
    # Scorers with the same figures stand in one row; a note lists those that do not fit its cell.
    merged: dict[tuple[str, ...], list[str]] = {}
    first: list[Gain | None] = []
    for (name, *figures), gain in zip(rows, gains, strict=True):
        if tuple(figures) not in merged:
            first.append(gain)
        merged.setdefault(tuple(figures), []).append(name)
    lines, notes = [], []
    for values, names in merged.items():
        cell = ", ".join(names)
        if len(cell) > LONGEST_NAME:
            cell = f"{names[0]} and {len(names) - 1} like it"
            notes.append(f"{cell}: {', '.join(names)}.")
        lines.append((cell, *values))
    return lines, first, notes


def _title(summary: Summary) -> str:
    chance = " · a scorer that ignores the user gets 0.500" if summary.mirrored_accuracy else ""
    return f"{summary.benchmark} · {size_name(summary)}{chance}"


def _rules(findings: Sequence[Finding]) -> Iterator[str]:
    words = {finding.word for finding in findings}
    rules = [f"{word}: {rule}." for word, rule in WORDS.items() if word in words]
    if rules:
        yield "   ".join(rule.replace(" ", "\u00a0") for rule in rules)  # each in one piece
    if any(finding.of_state for finding in findings):
        yield "state: what a personal model knows of nobody (nothing), the user or a stranger."


def _notes(runs: Sequence[Run], names: Mapping[str, str]) -> Iterator[str]:
    summaries = [run.summary for run in runs]
    bounds = [
        f"{names[s.scorer]} {plain(s.accuracy.value)} ({context_name(s.context)})"
        for s in summaries
        if s.oracle and not is_baseline(s.scorer)
    ]
    if bounds:
        yield f"Upper bound, shown gold: {', '.join(bounds)}."
    yield from _left_out(summaries, names)
    yield from not_measured(summaries, names)


def _legends(
    findings: Sequence[Finding],
    oracles: Sequence[Run],
    names: Mapping[str, str],
    contexts: Mapping[str, str],
) -> Iterator[str]:
    shown = {f.scorer for f in findings} | {run.summary.scorer for run in oracles}
    yield from legend({spec: name for spec, name in names.items() if spec in shown})
    yield from legend({s: name for s, name in contexts.items() if name != context_name(s)})


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
    by_context: dict[str, dict[str, dict[str, int]]] = {}
    for summary in summaries:
        for field in COUNTS:
            n = getattr(summary, field) or 0
            if n > (MANY * summary.n_pairs if field == "searches_unmatched" else 0):
                counts = by_context.setdefault(context_name(summary.context), {})
                counts.setdefault(field, {})[names[summary.scorer]] = n
    for context, counts in by_context.items():
        told = "; ".join(
            f"{max(n.values()):,} {COUNTS[field]} ({', '.join(n)})" for field, n in counts.items()
        )
        yield f"{context}: {told}."
