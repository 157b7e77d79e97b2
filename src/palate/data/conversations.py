"""A text, or a conversation in one of the forms that public files have, from one cell."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from palate.data import types
from palate.errors import DataError
from palate.marks import TRANSCRIPT
from palate.records import normal_form

ROLES = {
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(("assistant", "gpt", "bot", "model", "chatgpt"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
}
"""Names of roles in public files → the three of a chat template."""
PRINTED = re.compile(r"\s*\[\{'(?:role|content|from|value)'")
SPACE = re.compile(r"\s+")


class Turn(NamedTuple):
    """A turn as a file has it, before it is checked as a message."""

    role: str
    content: str


class Exchange(NamedTuple):
    """A question after earlier turns, and two or more answers to it."""

    turns: tuple[Turn, ...]
    question: str
    responses: tuple[str, ...]

    @property
    def columns(self) -> dict[str, Any]:
        """The contract's columns of the question with its turns."""
        turns = [turn._asdict() for turn in self.turns]
        return {"question": self.question, **({"turns": turns} if turns else {})}


def turns_of(value: object, field: str) -> tuple[Turn, ...] | None:
    """Return a conversation's turns, or None where the value is a plain text.

    Read are `[{role, content}]`, with the content as text or as blocks of text, `[{from, value}]`,
    the same as JSON in a text, and transcripts of `Human:` and `Assistant:`.

    Raises `DataError` for a message without role or text, and for anything but text in it.

    >>> turns_of([{"from": "human", "value": "Tea?"}], "chosen")
    (Turn(role='user', content='Tea?'),)
    >>> turns_of("\\n\\nHuman: Tea?\\n\\nAssistant: Green.", "chosen")[1]
    Turn(role='assistant', content='Green.')
    """
    text, value = value, decoded(value)
    if isinstance(value, str):
        return _transcript(value)
    if not isinstance(value, list | Sequence) or not value:
        return None
    if not all(isinstance(message, dict | Mapping) for message in value):
        return None
    if isinstance(text, str) and not all(map(_has_role, value)):
        return None  # a text that is JSON, such as an answer about data
    return tuple(_turn(message, field, k) for k, message in enumerate(value))


def is_conversation(value: object) -> bool:
    """Tell whether a value has the form of a conversation, readable or not.

    >>> is_conversation('[{"role": "wizard", "content": "Tea?"}]'), is_conversation('[{"a": 1}]')
    (True, False)
    """
    try:
        return turns_of(value, "") is not None
    except DataError:
        return True


def _has_role(message: Mapping[str, Any]) -> bool:
    return ("role" in message or "from" in message) and ("content" in message or "value" in message)


def decoded(value: object) -> object:
    """Return what a text of JSON holds where it is a list, else the value.

    >>> decoded('["Tea?"]'), decoded("[sic] tea"), decoded("7")
    (['Tea?'], '[sic] tea', '7')
    """
    if isinstance(value, str) and value.lstrip()[:1] == "[" and value.rstrip()[-1:] == "]":
        try:
            read: object = types.decoded(value)
        except DataError:
            return value
        return read if isinstance(read, list) else value
    return value


def listed(value: object) -> list[Any]:
    """Return the items of a list, also where it is JSON in a text; none of anything else."""
    items = decoded(value)
    return items if isinstance(items, list) else []


def decoded_list(value: object) -> list[Mapping[str, Any]]:
    """Return the objects of a list, also of JSON in a text, and of an object of equal lists."""
    if isinstance(value, Mapping) and all(isinstance(cells, list) for cells in value.values()):
        columns = [*value.values()]
        if len({*map(len, columns)}) == 1:
            return [dict(zip(value, cells, strict=True)) for cells in zip(*columns, strict=True)]
    return [item for item in listed(value) if isinstance(item, Mapping)]


def exchange(prompt: object, answers: Sequence[object], names: Sequence[str]) -> Exchange:
    """Return one question and its answers, whatever form they have.

    `names` are the columns: the prompt's, then the answers'. Whole conversations share their
    beginning, which is the question with its turns; the last assistant's turn is the response.
    Raises `DataError` where a beginning differs, or where there is no question or no response.

    >>> exchange("Tea?", ["Green.", "Black."], ["prompt", "chosen", "rejected"])
    Exchange(turns=(), question='Tea?', responses=('Green.', 'Black.'))
    """
    question_name, first, *others = names
    columns = (first, *others)
    read = [_turns_or_problem(*both) for both in zip(answers, columns, strict=True)]
    plain = [turns is None for turns in read]
    # To a question of its own: what has the form of a conversation, beside a text, is a text too.
    texts_alone = prompt is not None and all(isinstance(answer, str) for answer in answers)
    if any(plain) and not all(plain) and not texts_alone:
        odd = columns[plain.index(True)]
        raise DataError("a text, where the other response is a conversation", field=odd)
    start: tuple[Turn, ...] = ()
    if any(plain):
        texts = [_text(answer, name) for answer, name in zip(answers, columns, strict=True)]
        if prompt is None:
            return _implicit(texts, first)
    else:
        ended = [_ended(turns or (), name) for turns, name in zip(read, columns, strict=True)]
        (start, _), *starts = ended
        for (other, _), name in zip(starts, others, strict=True):
            if not alike(other, start):
                way = "of votes on a first answer cut both behind it, and leave later votes out"
                raise DataError(f"begins otherwise than `{first}`; {way}", field=name)
        texts = [text for _, text in ended]
        if prompt is None:
            return _question_of(start, texts, first)
    turns = _turns_asked(prompt, question_name)
    before = turns or ()
    if turns is None or (any(plain) and not turns):
        before = (Turn(role="user", content=_text(prompt, question_name)),)
    # The prompt may be the whole beginning, its last question, or its first one.
    if start and turns is not None and not alike(start, before):
        raise DataError(f"is not what `{first}` begins with", field=question_name)
    if start and turns is None and not any(alike((turn,), before) for turn in start):
        raise DataError(f"is not asked in `{first}`", field=question_name)
    return _question_of(start or before, texts, question_name)


def alike(first: Sequence[Turn], second: Sequence[Turn]) -> bool:
    """Tell whether two conversations hold the same turns, in normal form."""
    if first == second:
        return True
    forms = [[(turn.role, normal_form(turn.content)) for turn in part] for part in (first, second)]
    return forms[0] == forms[1]


def interleaved(prompts: Sequence[object], answers: Sequence[object], name: str) -> list[Turn]:
    """Return a conversation whose questions and answers stand in two lists.

    >>> [turn.content for turn in interleaved(["Tea?", "Why?"], ["Green.", "So."], "response_a")]
    ['Tea?', 'Green.', 'Why?', 'So.']
    """
    if len(prompts) != len(answers):
        raise DataError(f"has {len(answers)} turns for {len(prompts)} questions", field=name)
    return [
        turn
        for prompt, answer in zip(prompts, answers, strict=True)
        for turn in (
            Turn(role="user", content=_text(prompt, name)),
            Turn(role="assistant", content=_text(answer, name)),
        )
    ]


def _turn(message: Mapping[str, Any], column: str, k: int) -> Turn:
    role = message.get("role", message.get("from"))
    name, field = ROLES.get(str(role).strip().lower()), f"{column}[{k}]"
    if name is None:
        raise DataError(f"the role {role!r} is none of user, assistant, system", field=field)
    content = message.get("content", message.get("value"))
    if isinstance(content, str):
        return Turn(name, content)
    if not isinstance(content, Sequence):
        raise DataError("the message holds no text", field=field)
    texts = []
    for block in content:
        text = block if isinstance(block, str) else _block(block)
        if text is None:
            kind = block.get("type") if isinstance(block, Mapping) else type(block).__name__
            raise DataError(f"holds a block of {kind!r}; text alone is read", field=field)
        texts.append(text)
    return Turn(role=name, content="\n".join(texts))


def _block(block: object) -> str | None:
    if not isinstance(block, Mapping) or block.get("type", "text") != "text":
        return None
    text = block.get("text")
    return text if isinstance(text, str) else None


def _transcript(text: str) -> tuple[Turn, ...] | None:
    marks = list(TRANSCRIPT.finditer(text))
    if len(marks) < 2 or marks[0].start() > 0 or not marks[0][1]:
        return None
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return tuple(
        Turn(role="user" if mark[1] else "assistant", content=text[mark.end() : end].strip())
        for mark, end in zip(marks, ends, strict=True)
    )


def _turns_asked(prompt: object, name: str) -> tuple[Turn, ...] | None:
    # A prompt may end with the mark of the answer to come (Nectar's `Assistant:`).
    turns = turns_of(prompt, name)
    if turns and turns[-1].role == "assistant" and not turns[-1].content.strip():
        return turns[:-1]
    return turns


def _turns_or_problem(value: object, name: str) -> tuple[Turn, ...] | DataError | None:
    try:
        return turns_of(value, name)
    except DataError as error:  # of a conversation, which nobody may want to read
        return error


def _ended(turns: Sequence[Turn] | DataError, name: str) -> tuple[tuple[Turn, ...], str]:
    if isinstance(turns, DataError):
        raise turns
    if not turns or turns[-1].role != "assistant":
        raise DataError("the conversation does not end with the assistant", field=name)
    return tuple(turns[:-1]), turns[-1].content


def _question_of(turns: Sequence[Turn], texts: Sequence[str], name: str) -> Exchange:
    if not turns or turns[-1].role != "user":
        raise DataError("no question of the user's stands before the response", field=name)
    return Exchange(tuple(turns[:-1]), turns[-1].content, tuple(texts))


def _implicit(texts: Sequence[str], name: str) -> Exchange:
    # Two whole texts: what they begin with alike, up to a white space, is the question.
    shared = 0
    while shared < min(map(len, texts)) and len({text[shared] for text in texts}) == 1:
        shared += 1
    ends = [match.start() for match in SPACE.finditer(texts[0], 0, shared)]
    question = texts[0][: ends[-1]] if ends else ""
    if not question.strip():
        raise DataError("no question: no column of one, and no common beginning", field=name)
    return Exchange((), question, tuple(text[ends[-1] :].strip() for text in texts))


def _text(value: object, name: str) -> str:
    if isinstance(value, Mapping):  # WebGPT's question is an object of its source and its text
        value = value.get("full_text", value)
    if isinstance(value, str) and not PRINTED.match(value):
        return value
    got = "messages that are no JSON" if isinstance(value, str) else type(value).__name__
    raise DataError(f"expected a text or a conversation, got {got}", field=name)
