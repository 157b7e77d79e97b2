"""A vote: two responses and which is better, by one annotator or several in a row."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from palate.data.asked import asked_in
from palate.data.columns import (
    CHOICE,
    UNNAMED,
    VOTE_OF,
    LayoutMatch,
    LayoutOptions,
    Peek,
    Row,
    Side,
    TwoResponses,
    half_pair,
    plain_columns,
    row_layout,
    user_of,
)
from palate.data.conversations import Exchange, decoded, decoded_list, exchange, interleaved, listed
from palate.data.types import score_of
from palate.data.votes import (
    SIDES,
    by_model,
    is_number,
    meanings,
    side_of,
    sides_of,
    sign_of,
    spelled,
)
from palate.errors import DataError, UsageError

ONE_HOT = (("winner_model_a", "winner_model_b"), ("winner_a", "winner_b"))
ONE_HOT_TIE = ("winner_tie", "tie")
ANNOTATOR = re.compile(
    r"(annotator|rater|judge|worker|labell?er|expert|evaluator|reviewer|vote|label|annotation)"
    r"[_ -]?(\d+|[a-z])",
    re.I,
)
"""Columns of which each is one person's vote."""
NO_VOTE = (None, "", "*", ".", "-")
ANNOTATORS = re.compile(r"(?:\w+_)?(?:vote|annotation|annotator|judge?ment|preference)s?", re.I)
SCORES = ("score", "rating", "reward", "rank")


class Ballot(NamedTuple):
    """Where the vote of a row stands."""

    columns: tuple[str, ...]
    describe: str
    side: Callable[[Row], Side]
    """Row → first, second or tie; raises `DataError`."""
    ratings: tuple[str, ...] = ()


class Several(NamedTuple):
    """Several annotators' votes in one row."""

    columns: tuple[str, ...]
    who: str
    describe: str
    votes: Callable[[Row], list[tuple[object, Side, object]]]
    """Row → (user, side, all that is there of it) of each."""


@row_layout(
    "vote",
    "two responses and a winner, label, preference or two scores (Chatbot Arena, HelpSteer 2 and 3 "
    "preference, SHP, WebGPT), by one annotator or several",
)
def vote(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    pairs = peek.two_responses()
    if not pairs:
        return "no two columns of responses such as response_a and response_b"
    named = any(name.startswith(VOTE_OF) for name in options.mapped)
    votes_of = [_VoteColumns(peek, two, options, named) for two in pairs]
    ballots = [] if named else [b for columns in votes_of for b in columns.ballots()]
    ballot, rivals = (ballots[0], ballots[1:]) if ballots else (None, [])
    sole = ballot is not None and "winner" in options.mapped
    several = None if sole else votes_of[0].several()
    if ballot is not None and several is not None:
        sources = (several.columns, ballot.columns)
        ways = (" ".join(f"--map extra={name}" for name in columns) for columns in sources)
        raise UsageError(
            f"{' and '.join(ballot.columns)} and each of {', '.join(several.columns)} could be the "
            f"votes: leave one out with {' or '.join(ways)}"
        )
    votes = ballot or several
    if votes is None:
        return "no column says which response is better"
    if len(pairs) > 1:
        which = " and ".join("/".join(two.columns) for two in pairs)
        out = " or ".join(f"--map extra={a} --map extra={b}" for (a, b), _, _ in pairs)
        raise UsageError(f"{which} could each be the two responses: leave a pair out with {out}")
    two, who = pairs[0], peek.who()
    prompt = asked_in(peek, two.columns)
    read = {
        "question": prompt or "what both begin with",
        "responses": f"{two.columns[0]}, {two.columns[1]}",
        "choice": votes.describe,
        "user_id": who or (several.who if several else None),
    }
    used = (*two.columns, prompt, who, *votes.columns)

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        half_pair(row.get(two.columns[0]), row.get(two.columns[1]), two.columns)
        both, rest = _exchange(row, prompt, two), plain_columns(row, used)
        if ballot is not None:
            side = ballot.side(row)
            _refuse_rivals(row, ballot, side, rivals)
            rated = [row.get(name) for name in ballot.ratings]
            yield {**rest, "id": row.get("id"), **voted(both, side, rated), **user_of(row, who)}
        elif several is not None:
            for k, (by, side, of) in enumerate(votes := several.votes(row), 1):
                # What is there twice is named by what it holds, as rows that are there twice.
                name = None if votes.count((by, side, of)) > 1 else f"{row.get('id', UNNAMED)}-{k}"
                yield {**rest, "id": name, **voted(both, side), "user_id": by}

    single = ballot.columns[0] if ballot and len(ballot.columns) == 1 else None
    match = LayoutMatch(read, to_rows, vote=single)
    for name in filter(ANNOTATORS.fullmatch, peek.columns):
        if ballot and any(listed(value) for value in peek.values(name)):
            ours = " and ".join(ballot.columns)
            match.account.say(f"`{name}` may hold several people's votes, and {ours} alone is read")
    return match


def voted(both: Exchange, side: Side, ratings: Sequence[object] = ()) -> dict[str, Any]:
    """Return the contract's columns of a question and a vote between its two responses."""
    step = -1 if side == "second" else 1
    values = [*both.responses[::step], *ratings[::step]]
    names = ("chosen", "rejected", "chosen_rating", "rejected_rating")
    tie = {"tie": True} if side == "tie" else {}
    return {**both.columns, **dict(zip(names, values, strict=False)), **tie}


def _exchange(row: Row, prompt: str | None, two: TwoResponses) -> Exchange:
    names = [prompt or two.columns[0], *two.columns]
    question, answers = row.get(prompt or ""), [row[column] for column in two.columns]
    if prompt and question is None:
        raise DataError("missing", field=prompt)
    lists = [*map(decoded, (question, *answers))]
    # One list of questions and two of answers: several turns.
    texts = [value for value in lists if isinstance(value, list)]
    if len(texts) == 3 and all(isinstance(text, str | None) for part in texts for text in part):
        asked, *said = texts
        conversations = [
            [turn._asdict() for turn in interleaved(asked, answer, name)]
            for answer, name in zip(said, two.columns, strict=True)
        ]
        return exchange(None, conversations, names)
    return exchange(question, answers, names)


class _VoteColumns(NamedTuple):
    """The columns in which the votes between two responses may stand."""

    peek: Peek
    two: TwoResponses
    options: LayoutOptions
    named: bool
    """Whether `--map votes=` names the columns of the annotators."""

    def ballots(self) -> list[Ballot]:
        """Return every column that may be the vote; the one that `--map winner=` names alone."""
        votes = [name for name in CHOICE if _is_vote(self.peek, name)]
        if "winner" in self.options.mapped:
            return [self.ballot("winner")]
        ballots = []
        for columns in ONE_HOT:
            if not self.peek.lacks(*columns):
                tie = self.peek.first(ONE_HOT_TIE)
                every = (*columns, *filter(None, (tie,)))
                ballots.append(Ballot(every, ", ".join(every), partial(_one_hot, columns=every)))
        readable = [name for name in votes if self.is_readable(name)]
        if not ballots and not readable:  # the values of one that is alone are said to be unknown
            readable = [name for name in votes if len(votes) == 1 or self.has_number(name)][:1]
        ballots += map(self.ballot, readable)
        by_scores = None if ballots else self.by_scores()
        return [by_scores] if by_scores else ballots

    def ballot(self, choice: str) -> Ballot:
        if self.is_between(choice):
            described = f"{choice} (nearer to 1 is first, to 2 second, 1.5 a tie)"
            return Ballot((choice,), described, partial(_nearer, column=choice))
        described, read = self.described(choice)
        return Ballot((choice,), described, lambda row: side_of(row, row.get(choice), choice, read))

    def described(self, choice: str) -> tuple[str, Mapping[str, Side]]:
        """Return in words what a column's values mean, and what each of them does."""
        values = self.peek.values(choice)
        read = sides_of(values, choice, self.two, self.options.votes)
        sides = {value: read.get(value) or sign_of(value, read) for value in map(spelled, values)}
        shown = [f"{value} is {side}" for value, side in sides.items() if side][:8]
        return f"{choice} ({', '.join(shown)})" if shown else choice, read

    def is_readable(self, choice: str) -> bool:
        """Tell whether a column's values are votes, or numbers that may be."""
        if self.is_between(choice):
            return True
        given = {spelled(value) for value in self.options.votes}
        seen = {spelled(value) for value in self.peek.values(choice)} - given
        words = meanings(self.two.columns, self.two.endings, ()) or {}
        models = {name for row in self.peek.rows for name in by_model(row)}
        return all(is_number(value) or value in words or value in models for value in seen)

    def has_number(self, choice: str) -> bool:
        return any(is_number(spelled(value)) for value in self.peek.values(choice))

    def is_between(self, choice: str) -> bool:
        """Tell whether votes are numbers from 1 to 2, as Alpaca Eval's annotators give them."""
        values = self.peek.values(choice)
        numbers = all(isinstance(value, float) and 1 <= value <= 2 for value in values)
        return self.two.endings == ("1", "2") and numbers and any(value % 1 for value in values)

    def by_scores(self) -> Ballot | None:
        names = {re.sub("[_ ]", "", name.lower()): name for name in self.peek.columns}
        for stem in SCORES:
            first, second = (names.get(f"{stem}{ending}") for ending in self.two.endings)
            if first is not None and second is not None:
                both, lower = (first, second), stem == "rank"
                described = f"{first}, {second} ({'lower' if lower else 'higher'} is better)"
                side = partial(_by_score, columns=both, lower=lower)
                return Ballot(both, described, side, () if lower else both)
        return None

    def several(self) -> Several | None:
        """Return where several annotators' votes stand, in lists or in columns of their own."""
        lists = []
        for column in filter(ANNOTATORS.fullmatch, self.peek.columns):
            cells = self.peek.values(column)
            inner = Peek.of(item for cell in cells for item in decoded_list(cell))
            who = inner.who()
            choices = [name for name in CHOICE if _is_vote(inner, name)]
            choice = inner.only(choices, "vote", "winner")
            if who is not None and choice is not None:
                described, read = self._replace(peek=inner).described(choice)
                votes = partial(_votes_of, column=column, who=who, choice=choice, read=read)
                described = f"each of {column}: {described}"
                lists.append(Several((column,), f"{column}.{who}", described, votes))
        if not lists:
            return self.by_column()
        columns = tuple(column for votes_of in lists for column in votes_of.columns)

        def every(row: Row) -> list[tuple[object, Side, object]]:
            given = [vote for votes_of in lists for vote in votes_of.votes(row)]
            if not given:
                raise DataError("holds no vote", field=columns[0])
            return given

        users = ", ".join(votes_of.who for votes_of in lists)
        return Several(columns, users, ", ".join(votes_of.describe for votes_of in lists), every)

    def by_column(self) -> Several | None:
        """Return a vote for each column that is an annotator's; an empty cell is none."""
        columns: list[str] = []
        read: dict[str, Mapping[str, Side]] = {}
        for name in self.peek.columns:
            rows = [row for row in self.peek.rows if row.get(name) not in NO_VOTE]
            named = name.startswith(VOTE_OF) if self.named else ANNOTATOR.fullmatch(name)
            alone = (self._replace(peek=Peek((name,), (row,))) for row in rows)
            readable = (self.named or a.is_readable(name) for a in alone)
            if named and _is_vote(self.peek, name) and any(readable):
                columns.append(name)
        if len(columns) < 2 and not self.named:
            return None
        for name in columns:
            values = [row[name] for row in self.peek.rows if row.get(name) not in NO_VOTE]
            read[name] = sides_of(values, name, self.two, self.options.votes)

        def votes(row: Row) -> list[tuple[object, Side, object]]:
            voted = [name for name in columns if row.get(name) not in NO_VOTE]
            if not voted:
                raise DataError("holds no vote", field=columns[0])
            return [(n.removeprefix(VOTE_OF), side_of(row, row[n], n, read[n]), n) for n in voted]

        return Several(tuple(columns), "their columns", f"each of {', '.join(columns)}", votes)


def _is_vote(peek: Peek, column: str) -> bool:
    return peek.hold(column, (str, int, float))


def _votes_of(
    row: Row, column: str, who: str, choice: str, read: Mapping[str, Side]
) -> list[tuple[object, Side, object]]:
    return [
        (item.get(who), side_of(item, item.get(choice), f"{column}.{choice}", read), item)
        for item in decoded_list(row.get(column))
    ]


def _nearer(row: Row, column: str) -> Side:
    value = _number(row, column)
    if not 1 <= value <= 2:
        raise DataError(f"{value} is not between 1 and 2", field=column)
    return "tie" if value == 1.5 else "first" if value < 1.5 else "second"


def _one_hot(row: Row, columns: Sequence[str]) -> Side:
    on = [spelled(row.get(column)) in ("1", "true") for column in columns]
    if sum(on) != 1:
        raise DataError(f"{sum(on)} of {', '.join(columns)} are 1; expected one", field=columns[0])
    return SIDES[on.index(True)]


def _by_score(row: Row, columns: tuple[str, str], lower: bool) -> Side:
    first, second = (_number(row, column) for column in columns)
    if first == second:
        return "tie"
    return "first" if (first < second) == lower else "second"


def _number(row: Row, column: str) -> float:
    value = row.get(column)
    number = None if isinstance(value, bool) else score_of(value, column)
    if number is None:
        raise DataError(f"expected a number, got {value!r}", field=column)
    return number


def _refuse_rivals(row: Row, ballot: Ballot, side: Side, rivals: Sequence[Ballot]) -> None:
    """Raise `UsageError` where another column that may be the vote is of another mind."""
    for rival in rivals:
        with suppress(DataError):  # it holds no vote here
            if rival.side(row) != side:
                ours, theirs = (" and ".join(vote.columns) for vote in (ballot, rival))
                names = [vote.columns[0] for vote in (ballot, rival) if len(vote.columns) == 1]
                ways = [f"--map winner={name}" for name in names]
                ways += [f"--map extra={theirs}"] if len(names) == 1 else []
                raise UsageError(
                    f"{ours} and {theirs} could each be the vote, and say different things: say "
                    f"which is with {' or '.join(ways)}"
                )
