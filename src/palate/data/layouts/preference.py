"""Chosen and rejected responses: TRL's forms, HH transcripts, RewardBench 1 and 2."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from palate.data.layouts.conversations import decoded, exchange, listed, turns_of
from palate.data.layouts.known_columns import QUESTION, Peek, Row, plain_columns, who_column
from palate.data.layouts.layout import LayoutMatch, LayoutOptions, RowLayout, exchanged, half_pair
from palate.errors import DataError

NAMES = (("chosen", "rejected"), ("response_j", "response_k"))
"""Columns of the better and the worse response; the second are those of paired Stack Exchange."""
RATINGS = {
    "chosen_rating": ("chosen_rating", "score_chosen", "chosen_score", "chosen_reward"),
    "rejected_rating": ("rejected_rating", "score_rejected", "rejected_score", "rejected_reward"),
}


def _preference(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    del options
    names = next((both for both in NAMES if all(name in peek.columns for name in both)), None)
    if names is None:
        missing = next(name for name in NAMES[0] if name not in peek.columns)
        return f"no column {missing!r}"
    if any(_texts(peek, name) for name in names):
        return f"`{names[0]}` or `{names[1]}` holds lists of texts (see rewardbench-2)"
    prompt, who = peek.first(QUESTION), who_column(peek)
    ratings = {ours: column for ours, names in RATINGS.items() if (column := peek.first(names))}
    forms = [_form(peek, name) for name in names]
    read = {
        "question": prompt or "what both begin with",
        "chosen": f"{names[0]}{forms[0]}",
        "rejected": f"{names[1]}{forms[1]}",
        **({"user_id": who} if who else {}),
        **ratings,
    }
    used = {*names, *filter(None, (prompt, who)), *ratings.values()}
    # TRL's files hold the whole conversation of the chosen response once more.
    used |= {"messages"} if prompt is None or forms[0] else set()

    def to_rows(number: int, row: Row) -> Iterator[dict[str, Any]]:
        del number
        half_pair(row.get(names[0]), row.get(names[1]), names)
        question = row.get(prompt) if prompt else None
        if prompt and question is None:
            raise DataError("missing", field=prompt)
        both = exchange(question, [row[name] for name in names], [prompt or names[0], *names])
        yield {
            **plain_columns(row, used),
            **exchanged(both),
            "chosen": both.responses[0],
            "rejected": both.responses[1],
            **({"user_id": row.get(who)} if who else {}),
            **{ours: row.get(column) for ours, column in ratings.items()},
        }

    return LayoutMatch("preference", read, to_rows)


def _form(peek: Peek, column: str) -> str:
    values = peek.values(column)[:20]
    if not any(turns_of(value, column) for value in values):
        return ""
    return " (transcript)" if all(isinstance(decoded(v), str) for v in values) else " (messages)"


def _texts(peek: Peek, column: str) -> bool:
    lists = [decoded(value) for value in peek.values(column)]
    return bool(lists) and all(
        isinstance(value, list) and value and all(isinstance(text, str) for text in value)
        for value in lists
    )


def _rewardbench_2(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    del options
    missing = [n for n in ("prompt", "chosen", "rejected") if n not in peek.columns]
    if missing:
        return f"no column {missing[0]!r}"
    if not (_texts(peek, "chosen") and _texts(peek, "rejected")):
        return "`chosen` and `rejected` are no lists of texts"
    read = {"question": "prompt", "chosen": "each of chosen", "rejected": "each of rejected"}

    def to_rows(number: int, row: Row) -> Iterator[dict[str, Any]]:
        better, worse = (list(map(str, listed(row.get(n)))) for n in ("chosen", "rejected"))
        half_pair(better or None, worse or None, ("chosen", "rejected"))
        question = exchange(
            row.get("prompt"), [better[0], worse[0]], ["prompt", "chosen", "rejected"]
        )
        name = row.get("id", number)
        rest = plain_columns(row, {"prompt", "chosen", "rejected", "id"})
        for k, chosen in enumerate(better, 1):
            for j, rejected in enumerate(worse, 1):
                yield {
                    **rest,
                    **exchanged(question),
                    "id": f"{name}-{k}-{j}",
                    "chosen": chosen,
                    "rejected": rejected,
                }

    return LayoutMatch("rewardbench-2", read, to_rows)


PREFERENCE = RowLayout(
    "preference",
    "chosen and rejected as texts, messages or transcripts, with a prompt or without (TRL, HH, "
    "UltraFeedback binarized, RewardBench)",
    _preference,
)
REWARDBENCH_2 = RowLayout(
    "rewardbench-2", "lists of chosen and rejected responses to one prompt", _rewardbench_2
)
