"""palate data: what palate reads in a file, before anything is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from textwrap import wrap

from palate.benchmarks import Dataset, couple_votes, find_benchmark, within
from palate.cli import options as flags
from palate.cli.console import show_text, wrapped_text
from palate.cli.declare import argument, option
from palate.cli.options import DatedLayoutReading
from palate.construction.rows import check_output, rows_file
from palate.data import choice_key, layout_lines
from palate.errors import BenchmarkError, UsageError
from palate.records import PreferencePair, Question
from palate.reports.numbers import many
from palate.seeding import unit

SHOWN, WIDTH = 3, 100
LEFT_OUT: tuple[object, ...] = ("", None, [], {}, ())


def data(
    file: str | None = argument(None, "File, folder or data set of the hub; none lists layouts."),
    *,
    benchmark: str | None = flags.FILE_TOO,
    reading: DatedLayoutReading,
    output: Path | None = option(None, "Write the rows, as palate's own JSONL.", "-o", "--output"),
    split: float | None = option(
        None, "With -o: name this share `test`, the rest `adapt`.", metavar="SHARE"
    ),
    by: str = option("question", "What --split keeps in one piece: a question or a user."),
    seed: int = flags.SEED,
) -> None:
    """Print what palate reads in a file: layout, counts, three rows, what evaluation would use."""
    if split is not None and (
        output is None or not 0 < split < 1 or by not in ("question", "user")
    ):
        raise UsageError("--split: expected a share between 0 and 1, -o, and --by question or user")
    file = flags.only_one(file, benchmark)
    if file is None:
        show_text("\n".join(_layouts()))
        return
    if output is not None:
        check_output(output)
    loaded = find_benchmark(file).load(replace(reading.options(), skip_bad_rows=True))
    loaded = within(loaded, reading.since, reading.until)
    show_text("\n".join(_described(loaded)))
    if output is not None:
        rows = loaded.rows if split is None else _split(loaded.rows, split, by, seed)
        with rows_file(output) as writer:
            for row in rows:
                writer.write(contract_row(row))
        parts = Counter(row.split for row in rows if row.split)
        named = ", ".join(f"{n:,} {name}" for name, n in sorted(parts.items()))
        show_text(f"\nwritten: {many(len(rows), 'row')} to {output}{named and f' ({named})'}")


def _split(rows: Sequence[Question], share: float, by: str, seed: int) -> list[Question]:
    """Return rows of two splits; users or questions that are one in normal form are in one."""
    keys = [choice_key(row.text, row.turns) if by == "question" else row.user_id for row in rows]
    order = sorted(set(keys), key=lambda key: unit(f"test {by}", seed, key))
    test = set(order[: max(1, round(share * len(order)))])
    if len(test) == len(order):
        raise UsageError(f"--split {share:g}: of {many(len(order), by)} none is left to adapt to")
    return [
        row.model_copy(update={"split": "test" if key in test else "adapt"})
        for row, key in zip(rows, keys, strict=True)
    ]


def _layouts() -> Iterator[str]:
    yield "Layouts, recognised by their columns; --layout NAME names one."
    yield ""
    for name, description in layout_lines():
        lines = wrap(description, WIDTH - 18)
        yield f" {name:<15}  {lines[0]}"
        yield from (f" {'':<15}  {line}" for line in lines[1:])


def _described(loaded: Dataset) -> Iterator[str]:
    rows = loaded.rows
    pairs = [row for row in rows if isinstance(row, PreferencePair)]
    yield from wrap(f"{loaded.name} · {loaded.reading or 'layout contract'}", WIDTH)
    account = loaded.account
    if account is not None and account.unread:
        unread = ", ".join(account.unread)
        yield from wrap(f"kept and never shown: {unread}", WIDTH, subsequent_indent="  ")
    for line in account.surprises() if account is not None else ():
        yield from wrap(f"note: {line}", WIDTH, subsequent_indent="  ")
    yield ""
    for name, value in _counts(loaded, pairs):
        yield f"  {name:<16} {value}"
    reasons = Counter((error.field, error.problem) for error in loaded.bad_rows)
    first = {(e.field, e.problem): e.line for e in reversed(loaded.bad_rows)}
    for (field, problem), n in reasons.most_common(10):
        where = f"`{field}` " if field else ""
        told = f"{n:,} bad: {where}{problem} (the first in row {first[field, problem]})"
        yield from wrap(told, WIDTH, initial_indent="  ", subsequent_indent="    ")
    if len(reasons) > 10:
        yield f"  … and {len(reasons) - 10} more reasons"
    for number, row in enumerate(islice(rows, SHOWN), 1):
        yield ""
        yield from _row(number, row)
    yield ""
    yield from wrap(_use(loaded, pairs), WIDTH)


def _counts(loaded: Dataset, pairs: Sequence[PreferencePair]) -> Iterator[tuple[str, str]]:
    rows = loaded.rows
    users = Counter(row.user_id for row in rows)
    ties = sum(pair.tie for pair in pairs)
    kinds = f"{len(pairs):,} pairs" + (f", {ties:,} of them ties" if ties else "")
    questions = len(rows) - len(pairs)
    yield "rows", f"{len(rows):,}: {kinds}" + (f", {questions:,} questions" if questions else "")
    votes = sorted(users.values())
    middle = votes[len(votes) // 2]
    named = sum(row.user_id != row.id for row in rows)
    each = f"{_span(votes)} rows each (median {middle:,})"
    yield "users", f"{len(users):,}, {each}" if named else "not named: each row is its own user"
    decided = replace(loaded, rows=tuple(pair for pair in pairs if not pair.tie))
    if named and decided.rows:
        yield "couples", f"{len(couple_votes(decided)) // 2:,} of opposite votes (--mirrors only)"
    posts = [len(row.profile) for row in rows if row.profile]
    if posts:
        different = len({(row.user_id, post.id) for row in rows for post in row.profile})
        where = f"in {len(posts):,} rows, {_span(sorted(posts))} each"
        yield "posts", f"{different:,} {where}"
    days = sorted(row.instant.start for row in rows if row.instant)
    if days:
        yield "dated", f"{len(days):,} rows, {days[0]:%Y-%m-%d} to {days[-1]:%Y-%m-%d}"
    turns = sum(bool(row.turns) for row in rows)
    if turns:
        yield "earlier turns", f"in {turns:,} rows"
    for name, values in (
        ("splits", Counter(row.split for row in rows if row.split)),
        ("subsets", Counter(row.subset for row in rows)),
    ):
        if len(values) > (name == "subsets"):
            listed = ", ".join(f"{value} {n:,}" for value, n in values.most_common(8))
            yield name, listed + (" …" if len(values) > 8 else "")
    rated = sum(None not in row.gold.ratings for row in pairs)
    if rated:
        yield "rated", f"{rated:,} pairs (--target rating)"
    if loaded.bad_rows:
        yield "bad rows", f"{len(loaded.bad_rows):,}, left out"


def _span(ordered: Sequence[int]) -> str:
    least, most = ordered[0], ordered[-1]
    return f"{least:,}" if least == most else f"{least:,} to {most:,}"


def _row(number: int, row: Question) -> Iterator[str]:
    yield f"row {number}: id {row.id}, user {row.user_id}"
    for post in row.profile[:2]:
        yield from _text("post", post.text)
    if len(row.profile) > 2:
        yield f"    … {len(row.profile) - 2:,} more posts"
    for turn in row.turns:
        yield from _text(turn.role, turn.content)
    yield from _text("question", row.text)
    if isinstance(row, PreferencePair):
        yield from _text("tie" if row.tie else "chosen", row.chosen)
        yield from _text("tie" if row.tie else "rejected", row.rejected)
    for response in row.responses if not isinstance(row, PreferencePair) else ():
        yield from _text("response", response)


def _text(name: str, text: str) -> list[str]:
    lines = [part for line in text.splitlines() for part in wrapped_text(line, WIDTH - 14)]
    return [f"  {name:<10}  {lines[0] if lines else ''}", *(f"  {'':<10}  {x}" for x in lines[1:])]


def _use(loaded: Dataset, pairs: Sequence[PreferencePair]) -> str:
    if not pairs:
        return "Evaluation takes pairs, and these are questions: best-of-n and decode take them."
    try:
        used = loaded.select()
    except BenchmarkError as error:
        return f"Evaluation would stop: {error}."
    what = f"Evaluation reads {many(len(used.rows), 'pair')}"
    if used.split != "all":
        what += f" of the split {used.split}"
    what += f" by {many(len({row.user_id for row in used.rows}), 'user')}"
    if used.ties:
        what += f" and leaves {many(used.ties, 'tie')} out"
    if used.history:
        what += f"; {many(len(used.history), 'choice')} of the split adapt are past choices"
    posts = any(row.profile for row in used.rows)
    shown = (
        "It shows nothing, five of the user's own posts, and as much of a stranger's."
        if posts
        else "Users have no posts, so it shows nothing of them; --posts FILE adds what they wrote."
    )
    return f"{what}. {shown}"


def contract_row(row: Question) -> dict[str, object]:
    """Return a row's columns that hold something, unknown ones too."""
    columns = {**row.extra, **row.to_row()}
    order = ("id", "user_id", "turns", "question", "chosen", "rejected")
    named = {name: columns.pop(name) for name in order if name in columns}
    return {n: v for n, v in {**named, **columns}.items() if v not in LEFT_OUT and v is not False}
