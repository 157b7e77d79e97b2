"""The row contract: one mapping in, one question or pair out, or an error that names the field."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from palate.errors import DataError
from palate.records import (
    Gold,
    Message,
    Post,
    PreferencePair,
    Question,
    RubricAspect,
    date_text,
    is_nobody,
    is_removed,
    normal_form,
    read_date,
)
from palate.records.dates import oldest_first
from palate.seeding import digest

REQUIRED = ("id", "question")
CHOICE = ("chosen", "rejected")
OF_GOLD = (
    *("narrative", "rubric_aspects", "reference", "chosen_rating", "rejected_rating"),
    *("rating_scale", "attribution", "source_url"),
)
KNOWN = frozenset(
    (
        *(*REQUIRED, *CHOICE, *OF_GOLD, "category", "chosen_again", "date", "mirror_of"),
        *("profile", "responses", "split", "subset", "tie", "traits", "turns", "user_id"),
    )
)
ROLES = ("user", "assistant", "system")
MESSAGE = ("role", "content")
TELLING = 30
"""Bytes from which on an earlier turn within a post is no chance."""
REMOVED = " (removed)"
SURROGATE = re.compile("[\ud800-\udfff]")


class MadeId(str):
    """An id that palate made, since the row has none."""

    __slots__ = ()


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return a row; raises `DataError` for what is no object."""
    if isinstance(value, DataError):
        raise value
    if not isinstance(value, Mapping):
        raise DataError(f"expected an object, got {type(value).__name__}")
    return value


def read_question(
    row: Mapping[str, Any],
    subset: str,
    left_out: list[str] | None = None,
    *,
    order_as_in_file: bool = False,
) -> Question:
    """Check one row; what has `chosen` and `rejected` is a `PreferencePair`.

    A post that holds the question within a longer text, or an earlier turn of the user's, is left
    out, as a stranger's is, and so is one that was removed; `left_out` takes its field. With
    `order_as_in_file` no date is read: posts stand as they are listed. Raises `DataError` with the
    field and what was expected.

    >>> row = {"id": 7, "question": "Tea?", "chosen": "Green.", "rejected": "Black."}
    >>> read_question(row, subset="all").user_id
    '7'
    """
    chooses = any(row.get(name) is not None for name in CHOICE)
    missing = [n for n in (*REQUIRED, *(CHOICE if chooses else ())) if row.get(n) is None]
    if missing:
        made = isinstance(row.get("id"), MadeId)
        have = ", ".join(sorted(str(name) for name in row if not made or name != "id")) or "none"
        what = "empty or null" if missing[0] in row else f"missing; the row has {have} (see --map)"
        raise DataError(what, field=missing[0])
    identifier = read_identifier(row["id"])
    user = _identifier(row, "user_id")
    if user is not None and is_nobody(user):
        raise DataError(
            f"{user!r} names nobody; leave the cell empty, or name them", field="user_id"
        )
    text, turns = _text(row, "question"), read_turns(row.get("turns"))
    left_out = [] if left_out is None else left_out
    fields: dict[str, Any] = {
        "id": identifier,
        "user_id": user or identifier,
        "text": text,
        "turns": turns,
        "profile": _profile(row.get("profile"), text, turns, left_out, dated=not order_as_in_file),
        "subset": _optional_text(row, "subset") or subset,
        "category": _optional_text(row, "category") or "",
        "split": _optional_text(row, "split"),
        "traits": _traits(row.get("traits")),
        "responses": _responses(row.get("responses")),
        **({} if row.keys().isdisjoint(OF_GOLD) else {"gold": _gold(row)}),
        "date": None if order_as_in_file else _date(row),
        "extra": {n: value for n, value in row.items() if n not in KNOWN and value is not None},
    }
    if not chooses:
        return Question(**fields)
    pair = PreferencePair(
        **fields,
        chosen=_text(row, "chosen"),
        rejected=_text(row, "rejected"),
        chosen_again=_optional_text(row, "chosen_again"),
        tie=_flag(row, "tie"),
        mirror_of=_identifier(row, "mirror_of"),
    )
    if not pair.tie and normal_form(pair.chosen) == normal_form(pair.rejected):
        but = " but for white space or the form of accents, or what has no width"
        but *= pair.chosen != pair.rejected
        needed = "a pair needs two different responses"
        raise DataError(f"equals `rejected`{but}; {needed}", field="chosen")
    for name in CHOICE:
        if pair.responses and getattr(pair, name) not in pair.responses:
            raise DataError("is none of the row's `responses`", field=name)
    if (again := pair.chosen_again) in (None, pair.chosen, pair.rejected):
        return pair
    forms = {normal_form(text): text for text in (pair.chosen, pair.rejected)}
    if normal_form(again) not in forms:
        raise DataError("is neither `chosen` nor `rejected`", field="chosen_again")
    return pair.model_copy(update={"chosen_again": forms[normal_form(again)]})


def _gold(row: Mapping[str, Any]) -> Gold:
    return Gold(
        narrative=_optional_text(row, "narrative"),
        aspects=_aspects(row.get("rubric_aspects")),
        reference=_optional_text(row, "reference"),
        ratings=(_number(row, "chosen_rating"), _number(row, "rejected_rating")),
        rating_scale=_scale(row.get("rating_scale")),
        attribution=_optional_text(row, "attribution"),
        source_url=_optional_text(row, "source_url"),
    )


def _text(row: Mapping[str, Any], name: str, within: str = "") -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise DataError(f"expected text, got {_kind(value)}", field=within + name)
    if not value.strip():
        raise DataError("expected text, got an empty string", field=within + name)
    return _unicode(value, within + name)


def _unicode(value: str, field: str) -> str:
    if not value.isascii() and SURROGATE.search(value):
        raise DataError("holds half a surrogate pair; not Unicode text", field=field)
    return value


def _optional_text(row: Mapping[str, Any], name: str, within: str = "") -> str | None:
    value = row.get(name)
    if value is None or value == "":
        return None
    return _text(row, name, within)


def _identifier(row: Mapping[str, Any], name: str, within: str = "") -> str | None:
    value = row.get(name)
    return None if value is None else read_identifier(value, within + name)


def read_identifier(value: object, field: str = "id") -> str:
    """Return an id, which is a text or a whole number; raises `DataError` with the field.

    >>> read_identifier(7), read_identifier("7")
    ('7', '7')
    """
    if isinstance(value, bool) or not isinstance(value, str | Integral):
        raise DataError(f"expected text or a whole number, got {_kind(value)}", field=field)
    if isinstance(value, str) and not value.strip():
        raise DataError("expected text or a whole number, got an empty string", field=field)
    return _unicode(str(value), field)


def _flag(row: Mapping[str, Any], name: str) -> bool:
    value = row.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise DataError(f"expected true or false, got {_kind(value)}", field=name)
    return value


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    if value is None:
        return None
    if not _is_finite(value):
        raise DataError(f"expected a finite number, got {_short(value)}", field=name)
    return float(value)


def _is_finite(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond a float's range
        return False


def _scale(value: object) -> tuple[float, float] | None:
    if value is None:
        return None
    ends = list(value) if isinstance(value, list | tuple) else []
    if len(ends) != 2 or not all(map(_is_finite, ends)):
        raise DataError("expected [lowest, highest]", field="rating_scale")
    if not ends[0] < ends[1]:
        raise DataError("expected lowest < highest", field="rating_scale")
    return float(ends[0]), float(ends[1])


def _traits(value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise DataError(f"expected {{name: value}}, got {_kind(value)}", field="traits")
    traits = {}
    for k, trait in value.items():
        if trait is None:
            continue
        if not isinstance(trait, str | int | float):
            raise DataError(f"{k!r}: expected text or a number, got {_kind(trait)}", field="traits")
        traits[_unicode(str(k), "traits")] = _unicode(str(trait), "traits")
    return traits


def read_turns(value: object) -> tuple[Message, ...]:
    """Return a list of `{role, content}` as messages; raises `DataError` with the field.

    A message of the system may open it; otherwise users and assistants speak as they did.

    >>> read_turns([{"role": "user", "content": "Tea?"}])
    (Message(role='user', content='Tea?'),)
    """
    turns: list[Message] = []
    for k, entry in enumerate(objects_in(value, "turns")):
        within = f"turns[{k}]."
        role = entry.get("role")
        if role not in ROLES:
            raise DataError(
                f"expected {', '.join(ROLES[:-1])} or {ROLES[-1]}, got {_short(role)}",
                field=f"{within}role",
            )
        if role == "system" and turns:
            raise DataError("only the first turn may be the system's", field=f"{within}role")
        more = [name for name, held in entry.items() if name not in MESSAGE and held]
        if more:
            raise DataError(
                "a turn has a role and a content, nothing else", field=f"{within}{more[0]}"
            )
        turns.append(Message(role=role, content=_text(entry, "content", within)))
    return tuple(turns)


def asked_title(text: str) -> str:
    """Return a text's first line, lower case, white space collapsed.

    >>> asked_title("  Why  tea?\\nBecause.")
    'why tea?'
    """
    lines = text.strip().splitlines()
    return normal_form(lines[0]).lower() if lines else ""


def telling_turns(turns: Iterable[Message]) -> tuple[str, ...]:
    """Return the user's turns that are long enough to tell their conversation, in normal form.

    30 bytes of UTF-8: many posts hold a shorter turn, such as "Thanks!", by chance.

    >>> telling_turns([Message(role="user", content=text) for text in ("Hi.", "Hi. " * 10)])
    ('Hi. Hi. Hi. Hi. Hi. Hi. Hi. Hi. Hi. Hi.',)
    """
    texts = (normal_form(turn.content) for turn in turns if turn.role == "user")
    return tuple(text for text in texts if len(text.encode()) >= TELLING)


def _profile(
    value: object, question: str, turns: Sequence[Message], left_out: list[str], *, dated: bool
) -> tuple[Post, ...]:
    entries = objects_in(value, "profile")
    if not entries:
        return ()
    posts: list[Post] = []
    plain = normal_form(question)
    telling = plain, *telling_turns(turns)
    title = asked_title(question)
    unnamed: Counter[str] = Counter()
    for k, entry in enumerate(entries):
        within = f"profile[{k}]."
        text = _text(entry, "text", within)
        if is_removed(text):
            left_out.append(f"{within}text{REMOVED}")
            continue
        written = normal_form(text)
        if asked_title(text) == title or written == plain:
            raise DataError("the post is the question itself: a leak", field=f"{within}text")
        name = _identifier(entry, "id", within)
        if name is None:
            # Named by its content: a user's rows may hold different posts at one position.
            name = digest("post", text)[:16]
            unnamed[name] += 1
            if unnamed[name] > 1:
                name = f"{name}-{unnamed[name]}"
        if any(part in written for part in telling):
            left_out.append(f"{within}text")
            continue
        category = _optional_text(entry, "category", within) or ""
        date = _date(entry, within) if dated else None
        posts.append(Post(id=name, category=category, text=text, date=date))
    if len({post.id for post in posts}) < len(posts):
        raise DataError("two posts have one id", field="profile")
    return oldest_first(posts)


def _date(row: Mapping[str, Any], within: str = "") -> str | None:
    field = f"{within}date"
    try:
        text = date_text(row.get("date"))
        if text is not None:
            read_date(_unicode(text, field))
    except DataError as error:
        raise error.at(field=field) from None
    return text


def _aspects(value: object) -> tuple[RubricAspect, ...]:
    return tuple(
        RubricAspect(
            aspect=_text(entry, "aspect", within),
            reason=_optional_text(entry, "reason", within) or "",
            evidence=_optional_text(entry, "evidence", within) or "",
        )
        for k, entry in enumerate(objects_in(value, "rubric_aspects"))
        for within in [f"rubric_aspects[{k}]."]
    )


def _responses(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise DataError(f"expected a list of texts, got {_kind(value)}", field="responses")
    names = [f"responses[{k}]" for k in range(len(value))]
    named = dict(zip(names, value, strict=True))
    texts = [_text(named, name) for name in names]
    forms = [normal_form(text) for text in texts]
    twice = next((k for k, form in enumerate(forms) if form in forms[:k]), None)
    if twice is not None:
        raise DataError("the same text as an earlier response", field=names[twice])
    return tuple(texts)


def objects_in(value: object, name: str) -> Sequence[Mapping[str, Any]]:
    """Return the objects of a list, none where it is missing; `DataError` for anything else."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(isinstance(e, Mapping) for e in value):
        raise DataError("expected a list of objects", field=name)
    return value


def _kind(value: object) -> str:
    return type(value).__name__


def _short(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
