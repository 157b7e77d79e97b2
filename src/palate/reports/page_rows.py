"""Rows on the page: one couple of users in full, then every row with its verdicts."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from palate.comparison import Finding
from palate.contexts import build_context, shows
from palate.errors import PalateError
from palate.html import printable
from palate.records import Context, PreferencePair, Settings, User, UserPool
from palate.reports.contents import POSTS, BenchmarkRuns, Contents, Key, by_key, nearest_posts
from palate.reports.names import Names
from palate.reports.parts import Section, Text, symbol
from palate.reports.table import Table
from palate.runs import Run
from palate.session import Session
from palate.words import shortened

COUPLE = (
    "couple of users",
    "Two users ask the same and choose opposite answers. A scorer is right on both only if it "
    "heeds who asks.",
)
PAIR = ("pair of answers", "One user, one question, and two answers of which the user prefers one.")
WROTE = {True: "wrote, nearest to the question first", False: "wrote, latest first"}
"""By whether a search matched any post."""
NOTHING = "no post of theirs was read (a file of posts is named by --posts)"


@dataclass(frozen=True)
class UserSide:
    """One user, what they wrote, and the answer they chose."""

    user: str
    posts: list[str]
    answer: str
    wrote: str
    """What stands above the posts."""


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
    for benchmark in contents.benchmarks:
        if (best := benchmark.best) is not None:
            advice = contents.texts.advice(best.run.verdicts.keys)
            part = Text(advice) if advice else _example(benchmark, best, contents)
            if part is not None and not (advice and part in parts):
                parts.append(part)
    designs = dict.fromkeys(COUPLE if each.mirrored else PAIR for each in contents.benchmarks)
    what = ", one ".join(title for title, _ in designs)
    return Section("example", f"One {what} in full", parts, " ".join(lead for _, lead in designs))


def _example(benchmark: BenchmarkRuns, best: Finding, contents: Contents) -> Example | None:
    names, texts, verdicts = contents.names, contents.texts, best.run.verdicts
    keys = list(verdicts.keys)
    couples = [sorted(keys[k] for k in couple) for couple in verdicts.couples.tolist()]
    outcomes, other = _outcomes(best.run), _outcomes(best.stranger)
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
    credits = dict.fromkeys(texts.credit(key) for key in both)
    users = [names.user(pair.user_id) for pair in pairs]
    return Example(
        [(turn.role, shortened(turn.content, 420)) for turn in pairs[0].turns],
        shortened(pairs[0].text, 900),
        [_side(user, pair) for user, pair in zip(users, pairs, strict=True)],
        "" if benchmark.mirrored else shortened(pairs[0].rejected, 900),
        _preferred(best, both, users, names),
        " ".join(filter(None, credits)),
    )


def _side(user: str, pair: PreferencePair) -> UserSide:
    posts = nearest_posts(pair)
    shown = [shortened(post.text, 420) for post in posts.things[:POSTS]]
    wrote = WROTE[posts.matched] if posts.things else NOTHING
    return UserSide(user, shown, shortened(pair.chosen, 900), wrote)


def _preferred(best: Finding, keys: list[Key], users: list[str], names: Names) -> Table:
    runs: Mapping[str, Run | None] = {
        "the user’s own posts": best.run,
        "a stranger’s posts": best.stranger,
        "nothing": best.nothing,
    }
    # Of one user alone the other answer is nobody's.
    others = users[::-1] if len(users) > 1 else [None]
    rows = [
        [
            context,
            *(
                _answer(_outcomes(run).get(key), user, mirror)
                for key, user, mirror in zip(keys, users, others, strict=True)
            ),
        ]
        for context, run in runs.items()
        if run is not None
    ]
    columns = ["shown", *(f"judging for {user}" for user in users)]
    return Table(f"What {names.scorer(best.scorer)} preferred", columns, rows, left=len(columns))


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


MOST_RUNS, FIRST = 24, 50
"""Runs whose verdicts stand beside a row; rows that stand there without a script."""
ROOM = 4_500_000
"""Bytes of texts and verdicts on a page: longer texts are cut until they fit."""
LENGTHS = (4000, 2000, 1000, 600, 400, 250, 150, 90, 60, 40)
VERDICTS = ("right", "wrong", "tie", "unscored")
MARGINS = ("smallest", "second", "third", "largest")


@dataclass(frozen=True)
class BrowsedRows:
    """Rows of one benchmark; `data` is what the page's script reads."""

    template: ClassVar[str] = "rows.html"
    name: str
    runs: list[str]
    users: list[str]
    first: list[tuple[Any, ...]]
    n: int
    divided: int
    shown_as: str
    cut: int
    data: Markup
    verdicts: ClassVar[tuple[str, ...]] = VERDICTS
    margins: ClassVar[tuple[str, ...]] = MARGINS


def rows(contents: Contents) -> Section:
    """Return the rows of each benchmark whose texts may be shown."""
    each = (_browsed(it, contents, k) for k, it in enumerate(contents.benchmarks, 1))
    lead = "Rows on which as many scorers are right as wrong come first."
    return Section("rows", "Row by row", [part for part in each if part is not None], lead)


def _browsed(benchmark: BenchmarkRuns, contents: Contents, k: int) -> BrowsedRows | None:
    names, texts = contents.names, contents.texts
    runs = benchmark.runs[:MOST_RUNS]
    every = dict.fromkeys(key for run in runs for key in run.verdicts.keys)
    pairs = {key: pair for key in every if (pair := texts.pair(key)) is not None}
    if not pairs:
        return None
    spec = next((run.summary.context for run in runs if shows(run.summary.context) == "user"), None)
    keys, divided = _most_divided_first(benchmark.main_findings or benchmark.findings, pairs)
    users = sorted({names.user(pair.user_id) for pair in pairs.values()}, key=lambda u: int(u[1:]))
    read = zip(
        keys, _own_parts((pairs[key] for key in keys), spec), *_codes(runs, keys), strict=True
    )
    fields: list[tuple[Any, ...]] = []
    scorer = names.public(runs[-1].summary.scorer)
    for key, parts, verdict, margin in read:
        pair, credit = pairs[key], texts.credit(key)
        if texts.private:
            words = ["-b", texts.source(key).rstrip("/").rsplit("/", 1)[-1], "-s", scorer, "-c"]
            words += [names.public(spec or "none"), "--pair", key[0]]
            credit = f"The whole prompt: palate show {shlex.join(words)}. {credit}".strip()
        question = "\n\n".join([*(turn.content for turn in pair.turns), pair.text])
        groups = [question], [pair.chosen], [pair.rejected], parts
        aspects = [aspect.aspect for aspect in pair.gold.aspects]
        user = users.index(names.user(pair.user_id))
        fields.append((user, verdict, margin, *groups, aspects, [credit]))
    labels, room = [names.run(run) for run in runs], ROOM // len(contents.benchmarks)
    for cut in LENGTHS:
        held: dict[str, int] = {}

        def place(text: str, cut: int = cut, held: dict[str, int] = held) -> int:
            return held.setdefault(printable(shortened(text, cut)), len(held))

        listed = [[*row[:3], *([*map(place, group)] for group in row[3:])] for row in fields]
        document = {"runs": labels, "users": users, "divided": divided}
        document |= {"texts": [*held], "rows": listed}
        data = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
        if len(data.encode()) <= room:
            break
    # The end of a script cannot stand in a block of data: its sign is written as JSON may write it.
    safe = Markup(data.replace("<", "\\u003c"))
    shown_as = "" if spec is None else names.context(spec)
    first = [(users[user], *more) for user, *more in fields[:FIRST]]
    return BrowsedRows(f"rows-{k}", labels, users, first, len(pairs), divided, shown_as, cut, safe)


def _most_divided_first(
    findings: Sequence[Finding], pairs: Mapping[Key, PreferencePair]
) -> tuple[list[Key], int]:
    """Return the rows, those first on which scorers disagree most, and on how many they do."""
    credits = [by_key(each.run, each.run.verdicts.values) for each in findings]
    ranked = []
    for number, key in enumerate(pairs):
        column = np.array([credit.get(key, np.nan) for credit in credits])
        divided = min((column > 0.5).sum(), (column < 0.5).sum())
        ranked.append((-int(divided), number, key))
    return [key for *_, key in sorted(ranked)], sum(n < 0 for n, *_ in ranked)


def _own_parts(pairs: Iterable[PreferencePair], spec: str | None) -> Iterator[list[str]]:
    """Yield what the context shows of each row's own user, where it needs nobody else for it."""
    context: Context | None = None
    with suppress(PalateError):
        context = None if spec is None else build_context(spec, Session(), Settings())
    for pair in pairs:
        parts: tuple[Any, ...] = ()
        if context is not None:
            user = User(id=pair.user_id, posts=pair.profile, traits=pair.traits)
            with suppress(PalateError, LookupError):
                parts = context.shown(pair.view, user, UserPool({})).parts
        yield [part.text for part in parts]


def _codes(runs: Sequence[Run], keys: Sequence[Key]) -> tuple[list[str], list[list[float | None]]]:
    """Return of each row two digits a run, verdict and quarter of the margin, and the margins."""
    columns, sizes = [], []
    for run in runs:
        credit = _column(run, run.verdicts.values, keys)
        margin = _column(run, run.verdicts.margins, keys)
        verdict = np.where(
            np.isnan(credit), 3, np.where(credit > 0.5, 0, np.where(credit < 0.5, 1, 2))
        )
        size = np.abs(margin)
        cuts = np.nanquantile(size, [0.25, 0.5, 0.75]) if np.isfinite(size).any() else [0.0] * 3
        quarter = np.where(np.isnan(size), 9, np.searchsorted(cuts, size))
        columns.append([f"{v}{q}" for v, q in zip(verdict.tolist(), quarter.tolist(), strict=True)])
        sizes.append([None if np.isnan(m) else float(f"{m:.3g}") for m in margin.tolist()])
    of_rows = ["".join(codes) for codes in zip(*columns, strict=True)]
    return of_rows, [list(of_row) for of_row in zip(*sizes, strict=True)]


def _column(run: Run, column: NDArray[np.float64], keys: Sequence[Key]) -> NDArray[np.float64]:
    known = by_key(run, column)
    return np.array([known.get(key, np.nan) for key in keys])
