"""Section 4: one couple of users in full, so that what is measured can be seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from markupsafe import Markup

from palate.comparison.findings import Finding
from palate.reports.page.contents import BenchmarkRuns, Contents
from palate.reports.page.names import Names
from palate.reports.page.parts import Section, Text, symbol
from palate.reports.page.texts import POSTS, Key, Texts, by_key, nearest_posts
from palate.reports.table import Table
from palate.runs import Run
from palate.words import shortened

COUPLE = (
    "couple of users",
    "Two users ask the same and choose opposite answers. A scorer is right on both only if it "
    "heeds who asks.",
)
PAIR = (
    "pair of answers",
    "One user, one question, and two answers of which the user prefers one.",
)


@dataclass(frozen=True)
class UserSide:
    """One user, what they wrote, and the answer they chose."""

    user: str
    posts: list[str]
    answer: str


@dataclass(frozen=True)
class Example:
    """One question with its users; `rejected` is the other answer where there is one user."""

    template: ClassVar[str] = "example.html"
    turns: list[tuple[str, str]]
    """Role and text of what was said before the question."""
    question: str
    sides: list[UserSide]
    rejected: str
    table: Table
    credit: str


def example(contents: Contents) -> Section:
    """Return one couple, or pair, of each benchmark."""
    parts: list[object] = []
    texts = contents.texts
    for benchmark in contents.benchmarks:
        best = benchmark.best
        if best is None:
            continue
        keys = best.run.verdicts.keys
        if advice := texts.advice(keys):
            parts.append(Text(advice))
        elif (made := _example(benchmark, best, texts, contents.names)) is not None:
            parts.append(made)
    designs = dict.fromkeys(COUPLE if each.mirrored else PAIR for each in contents.benchmarks)
    what = ", one ".join(title for title, _ in designs)
    return Section("example", f"One {what} in full", parts, " ".join(lead for _, lead in designs))


def _example(benchmark: BenchmarkRuns, best: Finding, texts: Texts, names: Names) -> Example | None:
    verdicts = best.run.verdicts
    keys = list(verdicts.keys)
    couples = [sorted(keys[k] for k in couple) for couple in verdicts.couples.tolist()]
    outcomes = _outcomes(best.run)
    other = _outcomes(best.stranger)
    ranked = []
    for both in couples if benchmark.mirrored else [[key] for key in keys]:
        pairs = [pair for key in both if (pair := texts.pair(key)) is not None]
        if len(pairs) < len(both):
            continue
        right = sum(outcomes.get(each, 0.0) for each in both)
        told_apart = right - sum(other.get(each, 0.0) for each in both)
        lacks = sum(len(pair.profile) < POSTS for pair in pairs)
        length = len(pairs[0].text) + len(pairs[0].chosen) + len(pairs[0].rejected)
        ranked.append((lacks, -right, -told_apart, length, both[0][1], both, pairs))
    if not ranked:
        return None
    *_, both, pairs = min(ranked)
    users = [names.user(pair.user_id) for pair in pairs]
    credits = dict.fromkeys(texts.credit(key) for key in both)
    return Example(
        [(turn.role, shortened(turn.content, 420)) for turn in pairs[0].turns],
        shortened(pairs[0].text, 900),
        [
            UserSide(
                user,
                [shortened(post, 420) for post in nearest_posts(pair)],
                shortened(pair.chosen, 900),
            )
            for user, pair in zip(users, pairs, strict=True)
        ],
        "" if benchmark.mirrored else shortened(pairs[0].rejected, 900),
        _preferred(best, both, users, names, mirrored=benchmark.mirrored),
        " ".join(filter(None, credits)),
    )


def _preferred(
    best: Finding, keys: list[Key], users: list[str], names: Names, *, mirrored: bool
) -> Table:
    runs: Mapping[str, Run | None] = {
        "the user’s own posts": best.run,
        "a stranger’s posts": best.stranger,
        "nothing": best.nothing,
    }
    rows = []
    for context, run in runs.items():
        if run is None:
            continue
        outcomes = _outcomes(run)
        cells = [
            _answer(outcomes.get(key), user, users[1 - k] if mirrored else None)
            for k, (key, user) in enumerate(zip(keys, users, strict=True))
        ]
        rows.append([context, *cells])
    columns = ["shown", *(f"judging for {user}" for user in users)]
    title = f"What {names.scorer(best.scorer)} preferred"
    return Table(title, columns, rows, [], len(columns))


def _answer(outcome: float | None, user: str, mirror: str | None) -> Markup:
    if outcome is None or np.isnan(outcome):
        return Markup("unscored")
    if outcome == 0.5:
        return Markup("neither: a tie")
    right = outcome > 0.5
    whose = f"{user}’s answer" if right else f"{mirror}’s answer" if mirror else "the other answer"
    mark, word = ("check", "right") if right else ("cross", "wrong")
    return Markup("{}{}, {}").format(symbol(mark), whose, word)


def _outcomes(run: Run | None) -> dict[Key, float]:
    return {} if run is None else by_key(run, run.verdicts.values)
