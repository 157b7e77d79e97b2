"""Data sets that have columns of their own: LaMP and LongLaMP, PersonalLLM."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from palate.data.layouts.known_columns import Peek, Row, plain_columns
from palate.data.layouts.layout import LayoutMatch, LayoutOptions, RowLayout, half_pair
from palate.errors import DataError

POST_TEXT = ("text", "abstract", "reviewText", "content")
POST_TITLE = ("title", "summary", "description")
WRITER = ("user_id", "reviewerId", "name", "author")
TURN = re.compile(r"response_(\d+)_a")


def _lamp(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    del options
    if "input" not in peek.columns or "profile" not in peek.columns:
        return "no columns `input` and `profile`"
    if not peek.hold("profile", list):
        return "`profile` is no list"
    inner = Peek.of(item for posts in peek.values("profile") for item in posts)
    text, title = inner.first(POST_TEXT), inner.first(POST_TITLE)
    if text is None:
        return f"posts have none of {', '.join(POST_TEXT)}"
    who, output = peek.first(WRITER), "output" if "output" in peek.columns else None
    parts = [name for name in (title, text) if name]
    read = {
        "question": "input",
        "profile": " and ".join(f"profile.{name}" for name in parts),
        **({"reference": output} if output else {}),
        **({"user_id": who} if who else {}),
    }

    def to_rows(number: int, row: Row) -> Iterator[dict[str, Any]]:
        del number
        posts = [_post(post, parts) for post in row.get("profile") or ()]
        yield {
            **plain_columns(row, {"input", "profile", "output", *filter(None, (who,))}),
            "question": row.get("input"),
            "profile": [post for post in posts if post],
            **({"reference": row.get(output)} if output else {}),
            **({"user_id": row.get(who)} if who else {}),
        }

    return LayoutMatch("lamp", read, to_rows)


def _post(post: object, parts: list[str]) -> dict[str, Any] | None:
    if not isinstance(post, Mapping):
        raise DataError("expected a list of objects", field="profile")
    texts = [str(post[name]).strip() for name in parts if post.get(name)]
    if not any(texts):
        return None
    beside = {name: post[name] for name in ("id", "date", "category") if post.get(name) is not None}
    return {**beside, "text": "\n".join(filter(None, texts))}


def _personalllm(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    del options
    numbers = sorted(int(match[1]) for name in peek.columns if (match := TURN.fullmatch(name)))
    wanted = [f"{name}_{number}" for number in numbers for name in ("prompt", "chosen")]
    missing = [name for name in wanted if name not in peek.columns]
    if not numbers:
        return "no column `response_1_a`"
    if missing:
        return f"no column {missing[0]!r}"
    read = {
        "question": "prompt_1 …",
        "responses": "response_1_a, response_1_b …",
        "choice": "chosen_1 … (a, b or the text)",
        "user_id": "person_id",
    }

    def to_rows(number: int, row: Row) -> Iterator[dict[str, Any]]:
        person = row.get("person_id", number)
        some = False
        for k in numbers:
            first, second = row.get(f"response_{k}_a"), row.get(f"response_{k}_b")
            if row.get(f"prompt_{k}") is None:
                continue  # histories differ in length
            some = True
            names = (f"response_{k}_a", f"response_{k}_b")
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
        if not some:
            raise DataError("missing", field=f"prompt_{numbers[0]}")

    return LayoutMatch("personalllm", read, to_rows)


LAMP = RowLayout("lamp", "input, profile and perhaps output (LaMP, LongLaMP)", _lamp)
PERSONALLLM = RowLayout(
    "personalllm", "a person's numbered prompts, responses and choices in one row", _personalllm
)
