"""All that a row asks (input, system prompt, history, its date), and what its user wrote."""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeGuard

from palate.data.account import KEPT, Account
from palate.data.columns import QUESTION, WHO, Numbered, Peek, Row, changed, plain_form
from palate.data.conversations import PRINTED, decoded, exchange, is_conversation, turns_of
from palate.data.rows import objects_in
from palate.data.types import is_missing, lost_zeros, tidied, whole
from palate.errors import DataError, UsageError
from palate.records import DistinctNames, is_nobody, is_removed, normal_form
from palate.records.dates import date_text, read_date

INPUT = "input"
SYSTEM = ("system", "system_prompt", "system_message")
HISTORY = ("history", "conversation_history", "chat_history", "previous_turns")
ASKING = re.compile(
    r"(?:^|_)(?:context|document|passage|article|background|instruction|input|prompt|query"
    r"|question|scenario|story|dialogue|dialog|conversation|history|system|abstract"
    r"|image|picture|video|audio)(?:_(?:text|prompt|message|body|path|url))?$"
)
"""Columns that may be a part of what was asked, by their names in plain form."""


def asked_in(peek: Peek, answers: Sequence[str]) -> str | None:
    """Return the question's column, None where answers begin with it; `UsageError` if unclear."""
    if (prompt := peek.first([name for name in QUESTION if name not in answers])) is not None:
        return prompt
    texts = [
        name
        for name in peek.columns
        if name not in answers and all(_text(v) and " " in v for v in peek.values(name))
    ]
    rivals = [
        name
        for name in texts
        if ASKING.search(form := plain_form(name)) and form not in (INPUT, *SYSTEM, *HISTORY)
    ]
    apart = sum(_begins_apart([row.get(name) for name in answers]) for row in peek.rows)
    if rivals or 2 * apart > len(peek.rows):
        ways = " or ".join(f"--map question={name}" for name in rivals or texts or ["COLUMN"])
        raise UsageError(f"no column of the question is known: say which it is with {ways}")
    return None


def _begins_apart(answers: Sequence[object]) -> bool:
    try:
        exchange(None, answers, ["", "", ""])
    except DataError:
        read = any(is_conversation(answer) or PRINTED.match(str(answer)) for answer in answers)
        return all(map(_text, answers)) and not read
    return False


class WholePrompts:
    """Rows of the contract in which the question holds all that their user was asked.

    `input` is joined to the question as Alpaca's template does, `system` and `history` become
    turns. Any other column that sounds like a part of the prompt may be one: where it differs
    within one question, users were asked different things, and the rows are refused until it is
    mapped.
    """

    def __init__(self, rows: Iterator[tuple[int, Any]], peek: Peek, account: Account) -> None:
        self.rows, self.account = rows, account
        by_form = {plain_form(name): name for name in peek.columns}
        self.input = by_form.get(INPUT)
        self.system = [by_form[name] for name in SYSTEM if name in by_form]
        self.history = [by_form[name] for name in HISTORY if name in by_form]
        joined = {self.input, *self.system, *self.history}
        self.others = [
            name for form, name in by_form.items() if ASKING.search(form) and name not in joined
        ]
        self.dates = [by_form[form] for form in map(plain_form, DATE) if form in by_form]
        self.dates = list(dict.fromkeys(self.dates))
        self.seen: dict[tuple[str, str], str] = {}

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        """Yield the rows; raises `UsageError` where a column differs within one question."""
        for number, row in changed(self.rows, self._whole):
            if isinstance(row, Mapping) and isinstance(row.get("question"), str):
                self._refuse_different(number, row)
            yield number, row

    def _whole(self, row: Row) -> Row:
        if not isinstance(row.get("question"), str):
            return row
        row = dict(row)
        if self.input is not None and _text(given := row.get(self.input)):
            del row[self.input]
            row["question"] = self._joined(row["question"], given)
        for name in self.history:
            if row.get(name):
                row["turns"] = [*_turns(row.pop(name), name), *_given_turns(row)]
                self._use(name, "earlier turns")
        for name in self.system:
            if _text(row.get(name)):
                row["turns"] = self._with_system(_given_turns(row), row.pop(name), name)
        if "date" not in row and (date := self._date(row)) is not None:
            row["date"] = row.pop(date)
        return row

    def _joined(self, question: str, given: str) -> str:
        assert self.input is not None
        if normal_form(given) == normal_form(question):
            return question
        if normal_form(question) in normal_form(given):
            raise UsageError(
                f"`{self.input}` holds the question and more: say which is asked with --map "
                f"question={self.input}, or leave it out with --map extra={self.input}"
            )
        self._use(self.input, "question (joined behind it)")
        return f"{question}\n\n{given}"

    def _with_system(self, turns: list[Any], text: str, name: str) -> list[Any]:
        first = turns[0] if turns and turns[0].get("role") == "system" else None
        if first is not None and normal_form(str(first.get("content"))) != normal_form(text):
            raise DataError("is another system prompt than the conversation's", field=name)
        self._use(name, "system turn")
        return turns if first is not None else [{"role": "system", "content": text}, *turns]

    def _date(self, row: Row) -> str | None:
        columns = [name for name in self.dates if row.get(name) not in (None, "")]
        if len(columns) != 1:
            return None  # none, or several: which of them is the vote's is not known
        try:
            if (text := date_text(row[columns[0]])) is None:
                return None
            read_date(text)
        except DataError:
            return None
        self._use(columns[0], "date")
        return columns[0]

    def _use(self, name: str, use: str) -> None:
        if self.account.columns.get(name, KEPT) == KEPT:
            self.account.columns[name] = use
            self.account.say(f"`{name}` is read: {use}")

    def _refuse_different(self, number: int, row: Row) -> None:
        for name in self.others:
            if not _text(value := row.get(name)) or normal_form(value) == normal_form(
                row["question"]
            ):
                continue
            asked = normal_form(row["question"])
            ways = f"--map input={name} joins it to the question, --map extra={name} leaves it out"
            self.account.say(f"`{name}` may be a part of what was asked, and is not read: {ways}")
            other = self.seen.setdefault((name, asked), value)
            if normal_form(other) != normal_form(value):
                raise UsageError(
                    f"row {number}: `{name}` differs where the question is the same, so users may "
                    f"have been asked different things: say what it is with --map input={name}, "
                    f"--map system={name} or --map question={name}; or that it was not shown, with "
                    f"--map extra={name}"
                )


def _text(value: object) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


def _given_turns(row: Row) -> list[Mapping[str, Any]]:
    return [*objects_in(tidied({"turns": row.get("turns") or None})["turns"], "turns")]


def _turns(value: object, name: str) -> list[dict[str, str]]:
    """Return earlier turns: messages, or pairs of a question and its answer."""
    value = decoded(value)
    if (
        isinstance(value, list)
        and value
        and all(
            isinstance(pair, list | tuple) and len(pair) == 2 and all(map(_text, pair))
            for pair in value
        )
    ):
        return [
            {"role": role, "content": text}
            for pair in value
            for role, text in zip(("user", "assistant"), pair, strict=True)
        ]
    read = turns_of(value, name)
    if read is None:
        raise DataError("expected messages, or pairs of a question and its answer", field=name)
    return [turn._asdict() for turn in read]


LOG = logging.getLogger("palate")
TEXT = ("text", "post", "content", "body", "comment", "review", "message", "selftext")
DATE = (
    *("date", "day", "when", "time", "timestamp", "datetime", "created", "created_at"),
    *("created_utc", "createdAt", "posted", "posted_at", "published", "published_at"),
    *("publish_date", "publication_date", "pub_date", "post_date", "time_created", "updated_at"),
)
"""Columns of a date, of which a file has one."""
BESIDE = ("id", "category")
Posts = Mapping[str, list[dict[str, Any]]]
"""By user, what they wrote, in the file's order."""


def posts_of(
    rows: Iterable[Numbered],
    source: str,
    account: Account | None = None,
    mapped: Mapping[str, str] | None = None,
    *,
    dated: bool = True,
) -> Posts:
    """Return each user's posts; where `dated`, their dates are to be dates.

    `mapped` names columns, as `--posts-map` does. Raises `DataError` for a row without user or
    text, and for what is no date; `UsageError` where two columns could be the date.

    >>> posts_of(iter([(1, {"user_id": 7.0, "text": "I like tea.", "date": "2026"})]), "p.csv")
    {'7': [{'date': '2026', 'text': 'I like tea.'}]}
    """
    account = account or Account(source)
    numbered = list(rows)
    peek = Peek.of(row for _, row in numbered)
    who, text, date = (
        _column(peek, name, known, mapped or {}, source)
        for name, known in (("user_id", WHO), ("text", TEXT), ("date", DATE))
    )
    if who is None or text is None:
        what = "user (--posts-map user_id=…)" if who is None else "text (--posts-map text=…)"
        have = ", ".join(peek.columns) or "none"
        raise DataError(f"no column of the {what}; the rows have {have}", file=source)
    reads = {who: "user_id", text: "text", **({date: "date"} if date else {})}
    reads |= {name: name for name in BESIDE if name in peek.columns}
    columns = ", ".join(f"{use} = {name}" for name, use in reads.items())
    LOG.info("%s: posts: %s", source, columns)
    place = Path(source).name
    account.columns |= {f"{place}: {name}": reads.get(name, KEPT) for name in peek.columns}
    if dated and date is None:
        account.say(f"{place}: no column of a date, so the order of the file counts")
    posts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for number, row in numbered:
        if isinstance(row, DataError):
            raise row.at(source, number)
        for name in (who, text):
            if is_missing(row.get(name)) or row.get(name) in (None, ""):
                raise DataError("missing", file=source, line=number, field=name)
        try:
            user = str(whole(row[who], who))
            if dated and date and (day := date_text(row.get(date))) is not None:
                read_date(day)
        except DataError as error:
            raise error.at(source, number, error.field or date) from None
        if is_nobody(user):
            account.leave_out(f"posts of {user!r}, who is nobody ({place})")
            continue
        if is_removed(row[text]):
            account.leave_out(f"posts that say [removed] or [deleted] ({place})")
            continue
        fields = {**{name: name for name in BESIDE}, **({"date": date} if date else {})}
        more = {ours: row[n] for ours, n in fields.items() if row.get(n) not in (None, "")}
        posts[user].append({**more, "text": row[text]})
    return dict(posts)


def _column(
    peek: Peek, name: str, known: Sequence[str], mapped: Mapping[str, str], source: str
) -> str | None:
    if (column := mapped.get(name)) is not None:
        if column not in peek.columns:
            have = ", ".join(peek.columns) or "none"
            raise UsageError(f"--posts-map {name}={column}: {source} has {have}")
        return column
    by_form = {plain_form(column): column for column in peek.columns}
    columns = list(dict.fromkeys(by_form[f] for f in map(plain_form, known) if f in by_form))
    if len(columns) > 1 and plain_form(columns[0]) != name and name != "text":
        flags = " or ".join(f"--posts-map {name}={column}" for column in columns)
        raise UsageError(f"{source}: {', '.join(columns)} could each be the {name}: say {flags}")
    return columns[0] if columns else None


def with_posts(
    rows: Iterable[Numbered], posts: Posts, source: str, account: Account
) -> Iterator[Numbered]:
    """Yield rows with the posts of a second file as their profile; count the users it knows.

    A row that names no user is its own user, as everywhere: its id is looked up. One that holds
    posts of its own is a bad row. Raises `DataError` where no user of the rows is in the second
    file, and where two users' ids differ in nothing but their form.
    """
    users: set[str] = set()
    unknown: set[str] = set()
    names = DistinctNames()
    for user in posts:
        names.add("user", user, source)
    for number, row in changed(rows, _named):
        if not isinstance(row, Mapping):
            yield number, row
            continue
        user = row["profile"]
        names.add("user", user, f"row {number} of the data")
        (users if user in posts else unknown).add(user)
        yield number, {**row, "profile": posts.get(user, [])}
    if not users:
        first = next(iter(sorted(unknown)), "none")
        raise DataError(
            f"no user of the rows has a post there (rows: {first!r}, posts: "
            f"{next(iter(posts), 'none')!r})",
            file=source,
        )
    if unknown:
        every, place = len(users) + len(unknown), Path(source).name
        line = f"{len(unknown)} of {every} users have no post in {place}"
        account.say(line, f"the first: {min(unknown)!r}")
        if twins := lost_zeros(unknown, posts):
            line = f"a user of {place} has zeros or capitals that the rows have not, or lacks them"
            account.say(line, "{!r} in the rows, {!r} there".format(*twins))


def _named(row: Row) -> Row:
    """Return a row with its user in place of the profile."""
    if row.get("profile"):
        raise DataError("holds posts, and --posts too: which are meant?", field="profile")
    named = tidied({name: row.get(name) for name in ("user_id", "id")})
    user = named["id"] if named["user_id"] is None else named["user_id"]
    return {**row, "profile": str(user)}
