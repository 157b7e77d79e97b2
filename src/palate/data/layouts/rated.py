"""Ranks and scores of any number of responses: in one row, or a row each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import combinations, pairwise
from typing import Any, NamedTuple

from palate.data.layouts.conversations import decoded, exchange
from palate.data.layouts.known_columns import (
    QUESTION,
    RESPONSE,
    SCORE,
    Peek,
    Row,
    plain_columns,
    who_column,
)
from palate.data.layouts.layout import LayoutMatch, LayoutOptions, RowLayout, exchanged
from palate.data.layouts.vote import decoded_list
from palate.errors import DataError

LISTS = ("completions", "answers", "responses", "candidates", "outputs", "generations")
BESIDE = ("scores", "ratings", "rewards", "ranks")
"""Columns of numbers, as many as there are responses."""


class Rated(NamedTuple):
    """A response and the number that its user gave it."""

    text: object
    score: float


def _rated(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    column = next((name for name in LISTS if _lists(peek, name)), None)
    if column is None:
        return "no list of responses such as completions or answers"
    prompt, who = peek.first(QUESTION), who_column(peek)
    inner = Peek.of(item for row in peek.values(column) for item in decoded_list(row))
    responses: Callable[[Row], list[Rated]]
    if inner.rows:
        text, score = inner.first(RESPONSE), inner.first(SCORE)
        if text is None or score is None:
            return f"`{column}` holds no response with a score"
        described = f"{column}.{text}"
        responses = partial(_of_objects, column=column, text=text, score=score)
    else:
        score = peek.first(BESIDE)
        if score is None:
            return f"no column of scores beside `{column}`"
        described = column
        responses = partial(_of_lists, column=column, score=score)
    if prompt is None:
        return "no column of the question"
    lowest = score.startswith("rank")
    used = {column, prompt, *filter(None, (who,)), score}
    read = {
        "question": prompt,
        "responses": described,
        **_scored(column, score, inner.rows, lowest, options),
        **({"user_id": who} if who else {}),
    }

    def to_rows(number: int, row: Row) -> Iterator[dict[str, Any]]:
        rest = plain_columns(row, used)
        named = {"user_id": row.get(who)} if who else {}
        for pair in _pairs(responses(row), row.get(prompt), prompt, column, lowest, options.pairs):
            yield {**rest, **named, **pair, "id": f"{row.get('id', number)}-{pair['id']}"}

    return LayoutMatch("rated", read, to_rows)


def _of_objects(row: Row, column: str, text: str, score: str) -> list[Rated]:
    return [
        Rated(item.get(text), _score(item.get(score), f"{column}.{score}"))
        for item in decoded_list(row.get(column))
    ]


def _of_lists(row: Row, column: str, score: str) -> list[Rated]:
    texts, numbers = decoded(row.get(column)), decoded(row.get(score))
    if not isinstance(texts, list) or not isinstance(numbers, list):
        raise DataError("expected a list", field=column)
    if len(texts) != len(numbers):
        raise DataError(f"has {len(numbers)} numbers for {len(texts)} responses", field=score)
    return [Rated(t, _score(n, score)) for t, n in zip(texts, numbers, strict=True)]


def _scored(
    column: str, score: str, inner: Sequence[Row], lowest: bool, options: LayoutOptions
) -> dict[str, str]:
    where = f"{column}.{score}" if inner else score
    better = "lower" if lowest else "higher"
    return {"choice": f"{where} ({better} is better; pairs: {options.pairs})"}


def _lists(peek: Peek, name: str) -> bool:
    values = [decoded(value) for value in peek.values(name)]
    return bool(values) and all(isinstance(value, list) for value in values)


def _rated_rows(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    prompt, text, score = peek.first(QUESTION), peek.first(RESPONSE), peek.first(SCORE)
    if prompt is None or text is None or score is None or prompt == text:
        lacking = "question" if prompt is None else "response" if text is None else "score"
        return f"no column of the {lacking}"
    who, lowest = who_column(peek), score == "rank"
    used = {prompt, text, score, *filter(None, (who,))}
    read = {
        "question": prompt,
        "responses": f"{text}, a row each",
        **_scored("", score, (), lowest, options),
        **({"user_id": who} if who else {}),
    }

    def common(row: Row) -> object:
        return repr(row.get(prompt)), repr(row.get(who)) if who else None

    def to_rows(number: int, rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
        named = {"user_id": rows[0].get(who)} if who else {}
        rest = plain_columns(rows[0], {*used, "id"})
        rated = [Rated(row.get(text), _score(row.get(score), score)) for row in rows]
        if len(rows) < 2:
            raise DataError("the only response to its question: there is no pair", field=text)
        question = rows[0].get(prompt)
        for pair in _pairs(rated, question, prompt, text, lowest, options.pairs):
            yield {**rest, **named, **pair, "id": f"{rows[0].get('id', number)}-{pair['id']}"}

    return LayoutMatch("rated-rows", read, to_rows, grouped_by=common)


def _pairs(
    rated: Sequence[Rated], question: object, prompt: str, column: str, lowest: bool, which: str
) -> Iterator[dict[str, Any]]:
    if len(rated) < 2:
        raise DataError(f"{len(rated)} responses; a pair takes two", field=column)
    if question is None:
        raise DataError("missing", field=prompt)
    names = [prompt, *(f"{column}[{k}]" for k in range(len(rated)))]
    read = exchange(question, [decoded(it.text) for it in rated], names)
    order = sorted(range(len(rated)), key=lambda k: rated[k].score, reverse=not lowest)
    if which == "all":
        chosen = list(combinations(order, 2))
    elif which == "adjacent":
        chosen = list(pairwise(order))
    else:
        chosen = [(order[0], order[-1])]
    for better, worse in chosen:
        if read.responses[better] == read.responses[worse]:
            continue  # the same text twice: nothing to choose
        tie = rated[better].score == rated[worse].score
        ratings = (
            {}
            if lowest
            else {
                "chosen_rating": rated[better].score,
                "rejected_rating": rated[worse].score,
            }
        )
        yield {
            **exchanged(read),
            "id": f"{better + 1}-{worse + 1}",
            "chosen": read.responses[better],
            "rejected": read.responses[worse],
            **({"tie": True} if tie else {}),
            **ratings,
        }


def _score(value: object, field: str) -> float:
    try:  # a label of true or false (KTO's) is 1 or 0
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise DataError(f"expected a number, got {value!r}", field=field) from None


RATED = RowLayout(
    "rated", "a list of responses with scores or ranks in each row (UltraFeedback, Nectar)", _rated
)
RATED_ROWS = RowLayout(
    "rated-rows", "a row for each response with a score (HelpSteer, TRL unpaired)", _rated_rows
)
