"""A vote: two responses and which is better, by one annotator or several in a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from palate.data.layouts.conversations import Exchange, decoded, exchange, interleaved, listed
from palate.data.layouts.known_columns import (
    CHOICE,
    QUESTION,
    Peek,
    Row,
    TwoResponses,
    only_column,
    plain_columns,
    two_responses,
    who_column,
)
from palate.data.layouts.layout import LayoutMatch, LayoutOptions, RowLayout, exchanged, half_pair
from palate.data.layouts.votes import Side, by_model, meanings, spelled
from palate.errors import DataError, UsageError

ONE_HOT = (("winner_model_a", "winner_model_b"), ("winner_a", "winner_b"))
ONE_HOT_TIE = ("winner_tie", "tie")
ANNOTATORS = ("votes", "annotations", "annotators", "judgments", "judgements", "preferences")
SCORES = ("score", "rating", "reward", "rank")


class Ballot(NamedTuple):
    """Where the vote of a row stands."""

    columns: tuple[str, ...]
    describe: str
    side: Any
    """Row → first, second or tie; raises `DataError`."""
    ratings: tuple[str, str] | None = None


def _vote(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    pairs = two_responses(peek)
    if not pairs:
        return "no two columns of responses such as response_a and response_b"
    ballot = next(
        (b for two in pairs for b in (_ballot(peek, two, options),) if b is not None), None
    )
    several = None if ballot else _several(peek, pairs[0], options)
    if ballot is None and several is None:
        return "no column says which response is better"
    if len(pairs) > 1:
        which = " and ".join("/".join(two.columns) for two in pairs)
        raise UsageError(f"{which} could each be the two responses: leave one pair out of the file")
    two, who = pairs[0], who_column(peek)
    prompt = peek.first([name for name in QUESTION if name not in two.columns])
    read = {
        "question": prompt or "what both begin with",
        "responses": f"{two.columns[0]}, {two.columns[1]}",
        "choice": ballot.describe if ballot else several.describe if several else "",
        **({"user_id": who} if who else {"user_id": several.who} if several else {}),
    }
    used = {*two.columns, *filter(None, (prompt, who))}

    def to_rows(number: int, row: Row) -> Iterator[dict[str, Any]]:
        first, second = (row.get(column) for column in two.columns)
        half_pair(first, second, two.columns)
        both = _exchange(row, prompt, two)
        votes: list[tuple[str, object, Side, tuple[Any, Any] | None]]
        if ballot is not None:
            given = ballot.ratings
            rated = (row.get(given[0]), row.get(given[1])) if given else None
            votes = [("", row.get(who) if who else None, ballot.side(row), rated)]
            rest = plain_columns(row, {*used, *ballot.columns})
        else:
            assert several is not None
            votes = [
                (f"-{k}", user, side, None) for k, (user, side) in enumerate(several.votes(row), 1)
            ]
            rest = plain_columns(row, {*used, several.column})
        for ending, user, side, rated in votes:
            order = (1, 0) if side == "second" else (0, 1)
            yield {
                **rest,
                **exchanged(both),
                "id": f"{row.get('id', number)}{ending}" if ending else row.get("id"),
                "chosen": both.responses[order[0]],
                "rejected": both.responses[order[1]],
                **({"tie": True} if side == "tie" else {}),
                **({"user_id": user} if user is not None else {}),
                **(
                    {"chosen_rating": rated[order[0]], "rejected_rating": rated[order[1]]}
                    if rated
                    else {}
                ),
            }

    vote = ballot.columns[0] if ballot and len(ballot.columns) == 1 else None
    return LayoutMatch("vote", read, to_rows, vote=vote)


def _exchange(row: Row, prompt: str | None, two: TwoResponses) -> Exchange:
    names = [prompt or two.columns[0], *two.columns]
    question = decoded(row.get(prompt)) if prompt else None
    answers = [decoded(row[column]) for column in two.columns]
    if prompt and question is None:
        raise DataError("missing", field=prompt)
    lists = [question, *answers]
    # One list of questions and two of answers: several turns.
    if all(isinstance(it, list) and all(isinstance(t, str) for t in it) for it in lists):
        texts: list[list[object]] = [list(it) for it in lists if isinstance(it, list)]
        conversations = [
            [turn.model_dump() for turn in interleaved(texts[0], answer, name)]
            for answer, name in zip(texts[1:], two.columns, strict=True)
        ]
        return exchange(None, conversations, names)
    return exchange(question, answers, names)


def _ballot(peek: Peek, two: TwoResponses, options: LayoutOptions) -> Ballot | None:
    for columns in ONE_HOT:
        if all(name in peek.columns for name in columns):
            tie = peek.first(ONE_HOT_TIE)
            every = (*columns, *filter(None, (tie,)))
            return Ballot(every, ", ".join(every), partial(_one_hot, columns=every))
    choice = only_column(peek, [n for n in CHOICE if _is_vote(peek, n)], "the vote", "winner")
    if choice is not None:
        read = _meanings(peek, choice, two, options)
        described = _described(peek, choice, read)
        return Ballot((choice,), described, lambda row: _side(row, row.get(choice), choice, read))
    return _by_scores(peek, two)


def _by_scores(peek: Peek, two: TwoResponses) -> Ballot | None:
    for stem in SCORES:
        for gap in ("_", "", " "):
            scores = [
                name
                for ending in two.endings
                for name in peek.columns
                if name.lower() == f"{stem}{gap}{ending}"
            ]
            if len(scores) == 2:
                both = (scores[0], scores[1])
                better = "lower" if stem == "rank" else "higher"
                described = f"{both[0]}, {both[1]} ({better} is better)"
                side = partial(_by_score, columns=both, better=better)
                return Ballot(both, described, side, both if stem != "rank" else None)
    return None


def _is_vote(peek: Peek, column: str) -> bool:
    return column in peek.columns and all(
        isinstance(value, str | int | float) for value in peek.values(column)
    )


def _meanings(
    peek: Peek, choice: str, two: TwoResponses, options: LayoutOptions
) -> Mapping[str, Side]:
    seen = {spelled(value) for value in peek.values(choice)}
    given = {spelled(value): side for value, side in options.votes.items()}
    # The Stanford Human Preferences say 1 where A is preferred.
    fixed: dict[str, Side] = {"1": "first", "0": "second"} if two.stem == "human_ref" else {}
    read = meanings(two.columns, two.endings, seen - fixed.keys())
    if read is None:
        untold = seen - given.keys()
        read = meanings(two.columns, two.endings, {v for v in untold if not _is_number(v)})
        numbers = sorted(filter(_is_number, untold))
        if numbers or read is None:
            raise UsageError(
                f"{choice} is {', '.join(numbers)}: say what that means with --vote, such as "
                f"--vote {numbers[0]}=first (the first response is {two.columns[0]})"
            )
    return {**read, **fixed, **given}


def _is_number(value: str) -> bool:
    return value.lstrip("-").isdigit()


def _described(peek: Peek, choice: str, read: Mapping[str, Side]) -> str:
    seen = dict.fromkeys(spelled(value) for value in peek.values(choice))
    shown = [f"{value} is {read[value]}" for value in seen if value in read][:8]
    return f"{choice} ({', '.join(shown)})" if shown else choice


def _side(row: Row, value: object, choice: str, read: Mapping[str, Side]) -> Side:
    if value is None or value == "":
        raise DataError("missing: who chose what is not known", field=choice)
    if isinstance(value, bool):
        raise DataError("true or false does not say which response", field=choice)
    side = by_model(row, ("model_a", "model_b")).get(spelled(value)) or read.get(spelled(value))
    if side is None:
        raise DataError(
            f"the vote {value!r} is not known; say what it means with --vote "
            f"{value}=first, second or tie",
            field=choice,
        )
    return side


def _one_hot(row: Row, columns: Sequence[str]) -> Side:
    on = [spelled(row.get(column)) in ("1", "true") for column in columns]
    sides: tuple[Side, ...] = ("first", "second", "tie")
    if sum(on) != 1:
        raise DataError(f"{sum(on)} of {', '.join(columns)} are 1; expected one", field=columns[0])
    return sides[on.index(True)]


def _by_score(row: Row, columns: tuple[str, str], better: str) -> Side:
    values = [_number(row, column) for column in columns]
    if values[0] == values[1]:
        return "tie"
    return "first" if (values[0] > values[1]) == (better == "higher") else "second"


def _number(row: Row, column: str) -> float:
    value = row.get(column)
    try:
        if isinstance(value, bool):
            raise ValueError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise DataError(f"expected a number, got {value!r}", field=column) from None


class Several(NamedTuple):
    """Several annotators' votes in one row."""

    column: str
    who: str
    describe: str
    votes: Any
    """Row → (user, side) of each."""


def _several(peek: Peek, two: TwoResponses, options: LayoutOptions) -> Several | None:
    for column in ANNOTATORS:
        inner = Peek.of(item for row in peek.values(column) for item in decoded_list(row))
        if column not in peek.columns or not inner.rows:
            continue
        who = who_column(inner)
        choice = only_column(inner, [n for n in CHOICE if _is_vote(inner, n)], "vote", "winner")
        if who is None or choice is None:
            continue
        read = _meanings(inner, choice, two, options)

        described = f"each of {column}: {_described(inner, choice, read)}"
        votes = partial(_votes_of, column=column, who=who, choice=choice, read=read)
        return Several(column, f"{column}.{who}", described, votes)
    return None


def _votes_of(
    row: Row, column: str, who: str, choice: str, read: Mapping[str, Side]
) -> list[tuple[object, Side]]:
    items = decoded_list(row.get(column))
    if not items:
        raise DataError("holds no vote", field=column)
    return [
        (item.get(who), _side(item, item.get(choice), f"{column}.{choice}", read)) for item in items
    ]


def decoded_list(value: object) -> list[Mapping[str, Any]]:
    """Return the objects of a list, also where it is JSON in a text."""
    return [it for it in listed(value) if isinstance(it, Mapping)]


VOTE = RowLayout(
    "vote",
    "two responses and a winner, label, preference or two scores (Chatbot Arena, HelpSteer 2 and 3 "
    "preference, SHP, WebGPT), by one annotator or several",
    _vote,
)
