"""Three responses or more: ranked and scored, in one row or a row each; or one of them chosen."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean
from typing import Any, NamedTuple

from palate.data.account import Account
from palate.data.asked import ASKING
from palate.data.columns import (
    CHOICE,
    QUESTION,
    RESPONSE,
    SCORE,
    UNNAMED,
    LayoutMatch,
    LayoutOptions,
    Peek,
    Row,
    needs,
    pair_row,
    plain_form,
    row_layout,
    user_of,
)
from palate.data.conversations import decoded, decoded_list, exchange, listed
from palate.data.types import score_of
from palate.data.votes import names_of, spelled
from palate.errors import DataError
from palate.records import normal_form

LISTS = ("completions", "answers", "responses", "candidates", "outputs", "generations")
SCORED = re.compile(r"_(?:score|rating|rank)$")
BESIDE = ("scores", "ratings", "rewards", "ranks")
"""Columns of numbers, as many as there are responses."""
TO_CHOOSE_FROM = (
    *("responses", "summaries", "completions", "answers", "candidates", "outputs", "options"),
)
ABOUT = ("info",)
"""Columns of an object that holds the question among other things."""
ACCEPTED = "accept"
"""Prodigy's list of the options that were chosen."""
NOT_DONE = ("reject", "ignore")
PLACE = re.compile(r"(?:^|_)(?:conversation|interaction|dialog(?:ue)?|thread)(?:_id)?$")
"""Columns that say in which conversation the same question was asked."""
PAIRS_OF: Mapping[str, Callable[[list[int]], Collection[tuple[int, int]]]] = {
    "all": lambda order: list(combinations(order, 2)),
    "adjacent": lambda order: list(pairwise(order)),
    "best-worst": lambda order: [(order[0], order[-1])] * (len(order) > 1),
}


class Rated(NamedTuple):
    """A response and the number that its user gave it."""

    text: object
    score: float | None


class Ratings(NamedTuple):
    """Where rated responses stand, and which pairs are made of them."""

    question: str
    responses: str
    who: str | None
    lowest: bool
    """Whether lower is better."""
    pairs: str
    account: Account

    def choice(self, score: str) -> str:
        """Return what is said of the column of the scores."""
        better = "lower" if self.lowest else "higher"
        return f"{score} ({better} is better; pairs: {self.pairs})"

    def rows(self, row: Row, used: Collection[str], given: list[Rated]) -> Iterator[dict[str, Any]]:
        """Yield a row for each pair of a question's responses; equal scores are a tie."""
        column = self.responses
        scored = {k: response for k, response in enumerate(given) if response.score is not None}
        if gaps := len(given) - len(scored):
            self.account.merge("responses without a score, in no pair", gaps)
        if len(scored) < 2:
            raise DataError(f"{len(scored)} responses with a score; a pair takes two", field=column)
        names = [self.question, *(f"{column}[{k}]" for k in scored)]
        texts = [response.text for response in scored.values()]
        every = exchange(needs(row, self.question), texts, names)
        scores: dict[str, list[float]] = {}
        places: dict[str, int] = {}
        for k, text in zip(scored, every.responses, strict=True):
            scores.setdefault(normal_form(text), []).append(scored[k].score or 0.0)
            places.setdefault(normal_form(text), k)
        if again := len(scored) - len(places):
            what = "ratings of a response that was rated before: their mean counts"
            self.account.merge(what, again)
        means = {places[form]: fmean(numbers) for form, numbers in scores.items()}
        order = sorted(means, key=means.__getitem__, reverse=not self.lowest)
        of_place = dict(zip(scored, every.responses, strict=True))
        for better, worse in PAIRS_OF[self.pairs](order):
            both = every._replace(responses=(of_place[better], of_place[worse]))
            more = user_of(row, self.who)
            if means[better] == means[worse]:
                more["tie"] = True
            if not self.lowest:
                more |= {"chosen_rating": means[better], "rejected_rating": means[worse]}
            name = f"{row.get('id', UNNAMED)}-{better + 1}-{worse + 1}"
            yield pair_row(row, used, both, id=name, **more)


@row_layout("rated", "a list of responses with scores or ranks in each row (UltraFeedback, Nectar)")
def rated(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    column = next((name for name in LISTS if _lists(peek, name)), None)
    if column is None:
        return "no list of responses such as completions or answers"
    prompt, who = peek.first(QUESTION), peek.who()
    inner = Peek.of(item for row in peek.values(column) for item in decoded_list(row))
    text, score = inner.first(RESPONSE), peek.first([*options.mapped & {*SCORE}] or BESIDE)
    if inner.rows:
        scores = [name for name in inner.columns if SCORED.search(name)]
        score = inner.first((*SCORE, *(scores if len(scores) == 1 else ())))
        if text is None or score is None:
            return f"`{column}` holds no response with a score"
    if score is None:
        return f"no column of scores beside `{column}`"
    if prompt is None:
        return "no column of the question"
    account, used = Account(""), [name for name in (column, prompt, who, score) if name]
    ratings = Ratings(prompt, column, who, score.startswith("rank"), options.pairs, account)
    read = {
        "question": prompt,
        "responses": f"{column}.{text}" if text else column,
        "choice": ratings.choice(f"{column}.{score}" if inner.rows else score),
        "user_id": who,
    }

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        return ratings.rows(row, used, _given(row, column, text, score))

    return LayoutMatch(read, to_rows, account=account)


def _given(row: Row, column: str, text: str | None, score: str) -> list[Rated]:
    """Return the responses of a list of objects, or of texts beside a list of numbers."""
    if text is not None:
        items, field = decoded_list(row.get(column)), f"{column}.{score}"
        return [Rated(item.get(text), score_of(item.get(score), field)) for item in items]
    texts, numbers = decoded(row.get(column)), decoded(row.get(score))
    if not isinstance(texts, list) or not isinstance(numbers, list):
        raise DataError("expected a list", field=column)
    if len(texts) != len(numbers):
        raise DataError(f"has {len(numbers)} numbers for {len(texts)} responses", field=score)
    return [Rated(t, score_of(n, score)) for t, n in zip(texts, numbers, strict=True)]


def _lists(peek: Peek, name: str) -> bool:
    values = peek.values(name)
    return bool(values) and all(isinstance(decoded(v), list) or decoded_list(v) for v in values)


@row_layout("rated-rows", "a row for each response with a score (HelpSteer, TRL unpaired)")
def rated_rows(peek: Peek, options: LayoutOptions) -> LayoutMatch | str:
    prompt, text = peek.first(QUESTION), peek.first(RESPONSE)
    score = peek.only([*options.mapped & {*SCORE}] or SCORE[::-1], "the score", "score")
    if prompt is None or text is None or score is None or prompt == text:
        lacking = "question" if prompt is None else "response" if text is None else "score"
        return f"no column of the {lacking}"
    who, account = peek.who(), Account("")
    used = [name for name in (prompt, text, score, who) if name]
    ratings = Ratings(prompt, text, who, score == "rank", options.pairs, account)
    forms = {name: plain_form(name) for name in peek.columns if name not in used}
    contexts = [name for name, form in forms.items() if ASKING.search(form) or PLACE.search(form)]
    choice = ratings.choice(score)
    read = {"question": prompt, "responses": f"{text}, a row each", "choice": choice}

    def common(row: Row) -> object:
        beside = [row.get(name) for name in contexts]
        return repr(row.get(prompt)), repr(row.get(who)) if who else None, repr(beside)

    def to_rows(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
        given = [Rated(row.get(text), score_of(row.get(score), score)) for row in rows]
        if len(rows) < 2:
            apart = [name for name in contexts if rows[0].get(name)]
            ways = " or ".join(f"--map extra={name}" for name in apart)
            raise DataError(
                "the only response to its question: there is no pair"
                + (f"; {ways} if that is no part of the question" if ways else ""),
                field=text,
            )
        return ratings.rows(rows[0], used, given)

    return LayoutMatch({**read, "user_id": who}, to_rows, common, account=account)


@row_layout(
    "choice",
    "three responses or more, or a list of them, and which was chosen (TL;DR comparisons, Prodigy)",
)
def choice_of_list(peek: Peek, _: LayoutOptions) -> LayoutMatch | str:
    lists = [name for name in TO_CHOOSE_FROM if name in peek.columns]
    column = next((n for n in lists if all(len(listed(v)) > 1 for v in peek.values(n))), None)
    many = next((ended for ended in peek.ended_alike().values() if len(ended) > 2), {})
    if column is None and not many:
        return "no list of responses such as summaries or answers"
    votes = [name for name in (*CHOICE, ACCEPTED) if peek.values(name)]
    choice = peek.only(votes, "vote", "winner") if many else next(iter(votes), None)
    given = peek.values(choice) if choice else []
    items = Peek.of(item for value in peek.values(column or "") for item in listed(value))
    by_id = choice == ACCEPTED and "id" in items.columns  # Prodigy shows options in any order
    numbers = all(_alone(value).isdigit() for value in given if value != [])
    if choice is None or not (many or numbers or by_id):
        return f"no column of the chosen response of {column or ', '.join(many.values())}"
    about = next((name for name in ABOUT if peek.hold(name, Mapping)), None)
    inner = Peek.of(peek.values(about)) if about else peek
    asked = (*QUESTION, "text") if choice == ACCEPTED else QUESTION
    prompt, who = inner.first(asked), peek.who()
    if prompt is None:
        return "no column of the question"
    text = items.first(RESPONSE)
    source = f"{about}.{prompt}" if about else prompt
    places = {n: k for k, (end, name) in enumerate(many.items()) for n in names_of(name, end)}
    read = {
        "question": source,
        "responses": ", ".join(many.values()) or (f"{column}.{text}" if text else str(column)),
        "choice": choice if many else f"{choice} ({'by id' if by_id else 'counted from 0'})",
        "user_id": who,
    }
    used = (column, who, *many.values(), choice, about or prompt)
    account = Account("")

    def to_rows(row: Row) -> Iterator[dict[str, Any]]:
        if choice == ACCEPTED and row.get("answer") in NOT_DONE:
            account.leave_out(f"its answer is {row['answer']}")
            return
        cells = [row.get(name) for name in many.values()] or listed(row.get(column or ""))
        names = [*many.values()] or [f"{column}[{k}]" for k in range(len(cells))]
        texts = [c.get(text) if text and isinstance(c, Mapping) else c for c in cells]
        vote = needs(row, choice)
        ids = [spelled(cell.get("id") if by_id else k) for k, cell in enumerate(cells)]
        best = (places or {name: k for k, name in enumerate(ids)}).get(_alone(vote))
        if best is None:
            among = ", ".join(many.values() or ids)
            raise DataError(f"{vote!r} is none of {among}", field=choice)
        named = row.get(about) if about else row
        question = named.get(prompt) if isinstance(named, Mapping) else None
        if question is None:
            raise DataError("missing", field=source)
        every = exchange(question, texts, [source, *names])
        for k, response in enumerate(every.responses):
            if k != best:
                both = every._replace(responses=(every.responses[best], response))
                name = f"{row.get('id', UNNAMED)}-{k + 1}" if len(texts) > 2 else row.get("id")
                yield pair_row(row, used, both, id=name, **user_of(row, who))

    return LayoutMatch(read, to_rows, account=account)


def _alone(value: object) -> str:
    """Return a vote as it is compared, where it stands alone or in a list."""
    items = listed(value)
    return spelled(items[0] if len(items) == 1 else value)
