"""Section 8: pairs on which scorers disagree, with what they were given and what they preferred."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from markupsafe import Markup

from palate.comparison.findings import Finding
from palate.records import PreferencePair
from palate.reports.numbers import NONE, plain
from palate.reports.page.contents import BenchmarkRuns, Contents
from palate.reports.page.names import Names
from palate.reports.page.parts import Section, Text
from palate.reports.page.texts import Key, Texts, by_key
from palate.reports.table import Table

MOST, MOST_SCORERS = 50, 12


@dataclass(frozen=True)
class PairView:
    """One pair; `subset` and `wrong` are numbers that the filter goes by."""

    number: int
    pair: PreferencePair
    user: str
    division: str
    subset: int
    wrong: str
    table: Table
    command: str
    credit: str


@dataclass(frozen=True)
class Disagreements:
    """Pairs on which scorers disagree most, and what they can be filtered by."""

    template: ClassVar[str] = "pairs.html"
    pairs: list[PairView]
    subsets: list[str]
    scorers: list[str]
    filtered: bool
    """True for the one list of the page that the filter works on."""


def disagreements(contents: Contents) -> Section:
    """Return up to fifty pairs per benchmark, the most divided first."""
    parts: list[object] = []
    texts = contents.texts
    for benchmark in contents.benchmarks:
        chosen = _findings(benchmark)
        if len(chosen) < 2:
            continue
        if advice := texts.advice(chosen[0].run.verdicts.keys):
            parts.append(Text(advice))
            continue
        first = not any(isinstance(part, Disagreements) for part in parts)
        made = _disagreements(chosen, contents.names, texts, filtered=first)
        if made.pairs:
            parts.append(made)
    lead = "Pairs on which as many scorers are right as wrong come first."
    return Section("disagreement", "Where scorers disagree", parts, lead)


def _findings(benchmark: BenchmarkRuns) -> Sequence[Finding]:
    some = benchmark.main_findings
    if len(some) < 2:
        some = tuple(f for f in benchmark.findings if f.scorer != "random")
    return some[:MOST_SCORERS]


def _disagreements(
    findings: Sequence[Finding], names: Names, texts: Texts, *, filtered: bool
) -> Disagreements:
    values = [by_key(f.run, f.run.verdicts.values) for f in findings]
    margins = [by_key(f.run, f.run.verdicts.margins) for f in findings]
    subset_of = {
        key: subset
        for subset, verdicts in findings[0].run.verdicts.of_subsets()
        for key in verdicts.keys
    }
    labels = names.findings(findings)
    ranked = []
    for key in values[0]:
        column = np.array([each.get(key, np.nan) for each in values])
        right, wrong = int((column > 0.5).sum()), int((column < 0.5).sum())
        if right and wrong and texts.pair(key) is not None:
            ranked.append((-min(right, wrong), key[1], key, right, right + wrong))
    subsets = sorted({subset_of[each[2]] for each in ranked})
    pairs = []
    for number, (_, _, key, right, judged) in enumerate(sorted(ranked)[:MOST], 1):
        pair = texts.pair(key)
        assert pair is not None, "only rows with texts were ranked"
        pairs.append(
            PairView(
                number=number,
                pair=pair,
                user=names.user(pair.user_id),
                division=f"{right} of {judged} scorers are right",
                subset=subsets.index(subset_of[key]),
                wrong=" ".join(str(k) for k, v in enumerate(values) if v.get(key, 1) < 0.5),
                table=_judgements(number, labels, key, values, margins),
                command=_command(findings[0], key, texts, names),
                credit=texts.credit(key),
            )
        )
    return Disagreements(pairs, subsets, labels, filtered)


def _judgements(
    number: int,
    labels: Sequence[str],
    key: Key,
    values: Sequence[Mapping[Key, float]],
    margins: Sequence[Mapping[Key, float]],
) -> Table:
    rows = []
    for label, value, margin in zip(labels, values, margins, strict=True):
        credit, by = value.get(key, np.nan), margin.get(key, np.nan)
        word = (
            "unscored"
            if np.isnan(credit)
            else "tie"
            if credit == 0.5
            else ("right" if credit > 0.5 else "wrong")
        )
        rows.append([label, Markup(word), NONE if np.isnan(by) else plain(by, signed=True)])
    columns = ["scorer", "judgement", "margin for the chosen answer"]
    return Table(f"Pair {number}: what scorers preferred", columns, rows, [], 2)


def _command(finding: Finding, key: Key, texts: Texts, names: Names) -> str:
    """Return the command that prints the whole prompt, where ids may be shown."""
    if not texts.private:
        return ""
    told = finding.run.summary
    data = texts.source(key).rstrip("/").rsplit("/", 1)[-1]
    scorer, context = names.public(told.scorer), names.public(told.context)
    words = ["-b", data, "-s", scorer, "-c", context, "--pair", key[0]]
    return "palate show " + " ".join(map(shlex.quote, words))
