"""Chosen and rejected responses (TRL, HH, RewardBench 1 and 2), LaMP, LongLaMP, PersonalLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from palate.data.asked import asked_in
from palate.data.columns import (
    UNNAMED,
    LayoutMatch,
    LayoutOptions,
    Peek,
    Row,
    half_pair,
    needs,
    pair_row,
    plain_columns,
    row_layout,
    user_of,
)
from palate.data.conversations import decoded, exchange, is_conversation, listed
from palate.errors import DataError

NAMES = (("chosen", "rejected"), ("response_j", "response_k"))
"""Columns of the better and the worse response; the second are those of paired Stack Exchange."""
RATINGS = {
    "chosen_rating": ("chosen_rating", "score_chosen", "chosen_score", "chosen_reward"),
    "rejected_rating": ("rejected_rating", "score_rejected", "rejected_score", "rejected_reward"),
}
POST_TEXT = ("text", "abstract", "reviewText", "content")
POST_TITLE = ("title", "summary", "description")
WRITER = ("user_id", "reviewerId", "name", "author")
TURN = re.compile(r"response_(\d+)_a")


@row_layout(
    "preference",
    "chosen and rejected as texts, messages or transcripts, with a prompt or without (TRL, HH, "
    "UltraFeedback binarized, RewardBench)",
)
def preference(peek: Peek, _: LayoutOptions) -> LayoutMatch | str:
    names = next((both for both in NAMES if not peek.lacks(*both)), None)
    if names is None:
        return peek.lacks(*NAMES[0]) or ""
    if any(peek.hold(name, Mapping) for name in names):
        return f"`{names[0]}` or `{names[1]}` is a single message (see llama-factory)"
    if any(_texts(peek, name) for name in names):
        return f"`{names[0]}` or `{names[1]}` holds lists of texts (see rewardbench-2)"
    prompt, who = asked_in(peek, names), peek.who()
    ratings = {ours: column for ours, names in RATINGS.items() if (column := peek.first(names))}
    forms = [_form(peek, name) for name in names]
    read = {
        "question": prompt or "what both begin with",
        "chosen": f"{names[0]}{forms[0]}",
        "rejected": f"{names[1]}{forms[1]}",
        "user_id": who,
        **ratings,
    }
    used = {*names, prompt, who, *ratings.values()}
    # TRL's files hold the whole conversation of the chosen response once more.
    used |= {"messages"} if prompt is None or forms[0] else set()

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        half_pair(row.get(names[0]), row.get(names[1]), names)
        question = needs(row, prompt) if prompt else None
        both = exchange(question, [row[name] for name in names], [prompt or names[0], *names])
        rated = {ours: row.get(column) for ours, column in ratings.items()}
        yield pair_row(row, used, both, **user_of(row, who), **rated)

    return LayoutMatch(read, to_rows)


def _form(peek: Peek, column: str) -> str:
    values = peek.values(column)[:20]
    if not any(map(is_conversation, values)):
        return ""
    return " (transcript)" if all(isinstance(decoded(v), str) for v in values) else " (messages)"


def _texts(peek: Peek, column: str) -> bool:
    lists = [decoded(value) for value in peek.values(column)]
    return bool(lists) and all(
        isinstance(value, list) and value and all(isinstance(text, str) for text in value)
        for value in lists
    )


@row_layout("rewardbench-2", "lists of chosen and rejected responses to one prompt")
def rewardbench_2(peek: Peek, _: LayoutOptions) -> LayoutMatch | str:
    names = ("prompt", "chosen", "rejected")
    if missing := peek.lacks(*names):
        return missing
    if not (_texts(peek, "chosen") and _texts(peek, "rejected")):
        return "`chosen` and `rejected` are no lists of texts"
    read = {"question": "prompt", "chosen": "each of chosen", "rejected": "each of rejected"}

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        better, worse = (list(map(str, listed(row.get(n)))) for n in names[1:])
        half_pair(better or None, worse or None, ("chosen", "rejected"))
        asked = exchange(row.get("prompt"), [better[0], worse[0]], names)
        for k, chosen in enumerate(better, 1):
            for j, rejected in enumerate(worse, 1):
                both = asked._replace(responses=(chosen, rejected))
                yield pair_row(row, names, both, id=f"{row.get('id', UNNAMED)}-{k}-{j}")

    return LayoutMatch(read, to_rows)


@row_layout("lamp", "input, profile and perhaps output (LaMP, LongLaMP)")
def lamp(peek: Peek, _: LayoutOptions) -> LayoutMatch | str:
    if peek.lacks("input", "profile"):
        return "no columns `input` and `profile`"
    if not peek.hold("profile", list):
        return "`profile` is no list"
    inner = Peek.of(item for posts in peek.values("profile") for item in posts)
    text, title = inner.first(POST_TEXT), inner.first(POST_TITLE)
    if text is None:
        return f"posts have none of {', '.join(POST_TEXT)}"
    who, output = peek.first(WRITER), peek.first(("output",))
    parts = [name for name in (title, text) if name]
    profile = " and ".join(f"profile.{name}" for name in parts)
    read = {"question": "input", "profile": profile, "reference": output, "user_id": who}

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        posts = [_post(post, parts) for post in row.get("profile") or ()]
        yield {
            **plain_columns(row, ("input", "profile", "output", who)),
            "question": row.get("input"),
            "profile": [post for post in posts if post],
            **({"reference": row.get(output)} if output else {}),
            **user_of(row, who),
        }

    return LayoutMatch(read, to_rows)


def _post(post: object, parts: list[str]) -> dict[str, Any] | None:
    if not isinstance(post, Mapping):
        raise DataError("expected a list of objects", field="profile")
    texts = [str(post[name]).strip() for name in parts if post.get(name)]
    if not any(texts):
        return None
    beside = {name: post[name] for name in ("id", "date", "category") if post.get(name) is not None}
    return {**beside, "text": "\n".join(filter(None, texts))}


@row_layout("personalllm", "a person's numbered prompts, responses and choices in one row")
def personalllm(peek: Peek, _: LayoutOptions) -> LayoutMatch | str:
    numbers = sorted(int(match[1]) for name in peek.columns if (match := TURN.fullmatch(name)))
    wanted = [f"{name}_{number}" for number in numbers for name in ("prompt", "chosen")]
    if not numbers:
        return "no column `response_1_a`"
    if missing := peek.lacks("person_id", *wanted):
        return missing
    read = {
        "question": "prompt_1 …",
        "responses": "response_1_a, response_1_b …",
        "choice": "chosen_1 … (a, b or the text)",
        "user_id": "person_id",
    }

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        person = row.get("person_id", UNNAMED)
        turns = [k for k in numbers if row.get(f"prompt_{k}") is not None]  # histories differ
        for k in turns:
            names = (f"response_{k}_a", f"response_{k}_b")
            first, second = map(row.get, names)
            half_pair(first, second, names)
            choice = row.get(f"chosen_{k}")
            if choice not in ("a", "b", first, second):
                raise DataError(f"{choice!r} is neither a nor b", field=f"chosen_{k}")
            better, worse = (first, second) if choice in ("a", first) else (second, first)
            yield {
                "id": f"{person}-{k}",
                "user_id": person,
                "question": row[f"prompt_{k}"],
                "chosen": better,
                "rejected": worse,
            }
        if not turns:
            raise DataError("missing", field=f"prompt_{numbers[0]}")

    return LayoutMatch(read, to_rows)
