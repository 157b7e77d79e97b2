"""Exports of tools and of providers: Label Studio, Argilla, OpenAI, LLaMA-Factory, OASST."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from palate.data.columns import (
    QUESTION,
    UNNAMED,
    LayoutMatch,
    LayoutOptions,
    Peek,
    Row,
    TwoResponses,
    pair_row,
    plain_columns,
    row_layout,
)
from palate.data.conversations import decoded, exchange, listed
from palate.data.vote_layout import voted
from palate.data.votes import side_of, sides_of
from palate.errors import DataError

CHOSEN = ("selected", "choices")
"""Of a pairwise comparison, and of labels, in Label Studio."""
OASST_ROLES = {"prompter": "user", "assistant": "assistant"}


@row_layout("openai", "`input`, `preferred_output`, `non_preferred_output` (OpenAI's fine-tuning)")
def openai(peek: Peek, _: LayoutOptions) -> LayoutMatch | str:
    names = ("input", "preferred_output", "non_preferred_output")
    if missing := peek.lacks(*names):
        return missing
    if not peek.hold("input", Mapping):
        return "`input` holds no messages"
    read = {"question": "input.messages", "chosen": names[1], "rejected": names[2]}

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        messages = (row.get("input") or {}).get("messages")
        before = [message for message in listed(messages) if isinstance(message, Mapping)]
        answers = [[*before, *listed(row.get(name))] for name in names[1:]]
        yield pair_row(row, names, exchange(None, answers, ["input.messages", *names[1:]]))

    return LayoutMatch(read, to_rows)


@row_layout("llama-factory", "a conversation, and single messages chosen and rejected")
def llama_factory(peek: Peek, _: LayoutOptions) -> LayoutMatch | str:
    before = peek.first(("conversations", "messages", "prompt"))
    answers = ("chosen", "rejected")
    if before is None or not peek.hold(before, list):
        return "no list `conversations` or `messages` before the answers"
    if not all(peek.hold(name, Mapping) for name in answers):
        return "`chosen` and `rejected` are no single messages"
    names = (before, *answers)

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        whole = [[*listed(row.get(before)), row.get(name)] for name in answers]
        yield pair_row(row, names, exchange(None, whole, names))

    return LayoutMatch(dict(zip(("question", *answers), names, strict=True)), to_rows)


@row_layout("label-studio", "tasks of Label Studio's JSON export, a vote for each annotation")
def label_studio(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    if not peek.hold("data", Mapping) or not peek.hold("annotations", list):
        return "no columns `data` and `annotations`"
    asked = _question_and_responses(Peek.of(peek.values("data")))
    if asked is None:
        return "`data` holds no question with two responses"
    prompt, two = asked
    given = (it for task in peek.values("annotations") for it in task if isinstance(it, Mapping))
    choices = (_labelled(it) for it in given if not it.get("was_cancelled"))
    seen = [choice for choice in choices if choice is not None]
    sides = sides_of(seen, "annotations.result", two, options.votes)
    read = {
        "question": f"data.{prompt}",
        "responses": ", ".join(f"data.{column}" for column in two.columns),
        "choice": "annotations.result, cancelled ones left out",
        "user_id": "annotations.completed_by",
    }

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        data = row.get("data") or {}
        names = (prompt, *two.columns)
        both = exchange(data.get(prompt), [data.get(name) for name in two.columns], names)
        given, counted = row.get("annotations") or (), 0
        for annotation in given:
            if annotation.get("was_cancelled") or (choice := _labelled(annotation)) is None:
                continue
            counted += 1
            who = annotation.get("completed_by")
            who = who.get("email") or who.get("id") if isinstance(who, Mapping) else who
            yield {
                **plain_columns(data, names),
                **voted(both, side_of({}, choice, "annotations.result", sides)),
                "id": f"{row.get('id', UNNAMED)}-{annotation.get('id', counted)}",
                **({} if who is None else {"user_id": who}),
            }
        if not counted:
            raise DataError("holds no annotation that was finished", field="annotations")
        if left := len(given) - counted:
            match.account.merge("annotations left out, cancelled or without a choice", left)

    match = LayoutMatch(read, to_rows)
    return match


def _question_and_responses(peek: Peek) -> tuple[str, TwoResponses] | None:
    """Return the column of the question and those of its two responses, if that is all."""
    pairs, prompt = peek.two_responses(), peek.first(QUESTION)
    return (prompt, pairs[0]) if prompt is not None and len(pairs) == 1 else None


def _labelled(annotation: Mapping[str, Any]) -> object:
    """Return what an annotator chose: of a pairwise comparison, or of choices."""
    for result in annotation.get("result") or ():
        value = result.get("value") if isinstance(result, Mapping) else None
        if isinstance(value, Mapping):
            chosen = next((value[name] for name in CHOSEN if name in value), None)
            if isinstance(chosen, list):
                chosen = chosen[0] if len(chosen) == 1 else None
            if chosen is not None:
                return chosen
    return None


@row_layout("argilla", "records of Argilla with a question's `.responses` and `.users`")
def argilla(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    answered = [name for name in peek.columns if name.endswith(".responses")]
    votes = [name for name in answered if f"{name}.users" in peek.columns]
    if len(votes) != 1:
        return "no one column of an Argilla question with its `.responses` and `.responses.users`"
    asked = _question_and_responses(peek)
    if asked is None:
        return "no question with two responses"
    vote, (prompt, two) = votes[0], asked
    given = (value for cell in peek.values(vote) for value in listed(cell))
    values = ((listed(value) or [value])[0] for value in given)  # the first of a ranking
    sides = sides_of(values, vote, two, options.votes)
    names, beside = (prompt, *two.columns), (f"{vote}.users", f"{vote}.status")
    read = {
        "question": prompt,
        "responses": ", ".join(two.columns),
        "choice": f"each of {vote} that was submitted",
        "user_id": beside[0],
    }

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        both = exchange(row.get(prompt), [row[name] for name in two.columns], names)
        if isinstance(row.get(vote), str) and not isinstance(decoded(row[vote]), list):
            raise DataError("expected a list of JSON; write it with json.dumps", field=vote)
        values, users = listed(row.get(vote)), listed(row.get(beside[0]))
        states = listed(row.get(beside[1])) or ["submitted"] * len(values)
        if not len(values) == len(users) == len(states):
            raise DataError(f"has {len(values)} answers of {len(users)} users", field=vote)
        for k, (value, user, state) in enumerate(zip(values, users, states, strict=True), 1):
            if state != "submitted":
                match.account.leave_out(f"its answer is {state}")
            else:
                yield {
                    **plain_columns(row, (*names, vote, *beside)),
                    **voted(both, side_of({}, (listed(value) or [value])[0], vote, sides)),
                    "id": f"{row.get('id', UNNAMED)}-{k}",
                    "user_id": user,
                }

    match = LayoutMatch(read, to_rows)
    return match


@row_layout("oasst", "message trees of OpenAssistant with ranked replies")
def oasst(peek: Peek, _: LayoutOptions) -> LayoutMatch | str:
    if not peek.hold("prompt", Mapping) or "message_tree_id" not in peek.columns:
        return "no message trees (`message_tree_id`, `prompt` with its replies)"
    read = {"question": "prompt and its replies", "choice": "replies.rank (lower is better)"}

    def to_rows(row: Row) -> list[dict[str, Any]]:
        made = list(_ranked(row["prompt"], []))
        if not made:
            raise DataError("holds no two ranked replies to one message", field="prompt")
        return made

    return LayoutMatch(read, to_rows)


def _ranked(message: Mapping[str, Any], before: list[dict[str, str]]) -> Iterator[dict[str, Any]]:
    role = OASST_ROLES.get(str(message.get("role")))
    if role is None:
        raise DataError(f"the role {message.get('role')!r} is not known", field="prompt")
    replies = [reply for reply in message.get("replies") or () if isinstance(reply, Mapping)]
    turns = [*before, {"role": role, "content": str(message.get("text") or "")}]
    ranked = [r for r in replies if isinstance(r.get("rank"), int) and not r.get("deleted")]
    ranked.sort(key=lambda reply: reply["rank"])
    if role == "user":
        for k, better in enumerate(ranked):
            for worse in ranked[k + 1 :]:
                yield {
                    "id": f"{better.get('message_id')}-{worse.get('message_id')}",
                    "question": turns[-1]["content"],
                    **({"turns": turns[:-1]} if turns[:-1] else {}),
                    "chosen": better.get("text"),
                    "rejected": worse.get("text"),
                    **({"tie": True} if better["rank"] == worse["rank"] else {}),
                }
    for reply in replies:
        yield from _ranked(reply, turns)
