"""A list of responses, and the number of the one that was chosen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from palate.data.layouts.conversations import exchange, listed
from palate.data.layouts.known_columns import (
    CHOICE,
    QUESTION,
    RESPONSE,
    Peek,
    Row,
    needs,
    plain_columns,
    who_column,
)
from palate.data.layouts.layout import LayoutMatch, LayoutOptions, RowLayout, exchanged
from palate.data.layouts.votes import spelled
from palate.errors import DataError

LISTS = ("responses", "summaries", "completions", "answers", "candidates", "outputs")
ABOUT = ("info",)
"""Columns of an object that holds the question among other things."""


def _choice(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    del options
    column = next((n for n in LISTS if n in peek.columns and _lists(peek, n)), None)
    if column is None:
        return "no list of responses such as summaries or answers"
    choice = next((n for n in CHOICE if n in peek.columns and _numbers(peek, n)), None)
    if choice is None:
        return f"no column with the number of the chosen response of `{column}`"
    about = next((name for name in ABOUT if peek.hold(name, Mapping)), None)
    inner = Peek.of(peek.values(about)) if about else peek
    prompt, who = inner.first(QUESTION), who_column(peek)
    if prompt is None:
        return "no column of the question"
    items = Peek.of(item for value in peek.values(column) for item in listed(value))
    text = items.first(RESPONSE)
    source = f"{about}.{prompt}" if about else prompt
    read = {
        "question": source,
        "responses": f"{column}.{text}" if text else column,
        "choice": f"{choice} (counted from 0)",
        **({"user_id": who} if who else {}),
    }
    used = {column, choice, about or prompt, *filter(None, (who,))}

    def to_rows(number: int, row: Row) -> Iterator[dict[str, Any]]:
        texts = [
            item.get(text) if text and isinstance(item, Mapping) else item
            for item in listed(row.get(column))
        ]
        best = spelled(needs(row, choice))
        if not best.isdigit() or int(best) >= len(texts):
            count = len(texts)
            raise DataError(f"{best} is none of {count} responses, counted from 0", field=choice)
        named = row.get(about) if about else row
        question = named.get(prompt) if isinstance(named, Mapping) else None
        if question is None:
            raise DataError("missing", field=source)
        both = exchange(question, texts, [source, *(f"{column}[{k}]" for k in range(len(texts)))])
        for k in range(len(texts)):
            if k != int(best):
                yield {
                    **plain_columns(row, used),
                    **exchanged(both),
                    "id": f"{row.get('id', number)}-{k + 1}" if len(texts) > 2 else row.get("id"),
                    "chosen": both.responses[int(best)],
                    "rejected": both.responses[k],
                    **({"user_id": row.get(who)} if who else {}),
                }

    return LayoutMatch("choice", read, to_rows)


def _lists(peek: Peek, column: str) -> bool:
    return all(len(listed(value)) > 1 for value in peek.values(column))


def _numbers(peek: Peek, column: str) -> bool:
    return all(
        not isinstance(value, bool) and spelled(value).isdigit() for value in peek.values(column)
    )


CHOICE_OF_LIST = RowLayout(
    "choice", "a list of responses and the number of the chosen one (TL;DR comparisons)", _choice
)
