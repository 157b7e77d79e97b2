"""Choices among several responses, as field studies publish them: a row for each other response.

Below, the two studies that are read so: PRISM and Community Alignment.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from palate.benchmarks.dataset import Dataset
from palate.benchmarks.registry import Benchmark
from palate.data import (
    Account,
    FileReading,
    LayoutOptions,
    LoadedRows,
    LoadOptions,
    choice_key,
    collect,
    forbidden_texts,
    holds,
    normal,
    read_file,
    read_identifier,
    split_of,
)
from palate.errors import BenchmarkError, DataError
from palate.marks import DATA_END
from palate.records import Post, Question, normal_form
from palate.records.arguments import grouped

Row = Mapping[str, Any]
Lines = Iterator[tuple[int, Any]]
Ballot = tuple[Row, Mapping[str, tuple[str | None, float | None]], str]
"""Columns of the row contract, place in the file → (response, rating), and the chosen place."""


def ballot_rows(ballot: Ballot) -> Iterator[dict[str, Any] | DataError]:
    """Yield the chosen response against each other one, and an error for what is no pair.

    All rows on a question are of one split; half of all questions, by hash, are `adapt`. Responses
    of equal rating are a tie.

    >>> asked = {"id": 7, "question": "A drink?"}
    >>> (row,) = ballot_rows((asked, {"a": ("Tea.", 9), "b": ("Milk.", 2)}, "a"))
    >>> row["id"], row["chosen"], row["rejected"], row["rejected_rating"], row["split"]
    ('7-2', 'Tea.', 'Milk.', 2, 'adapt')
    """
    columns, answers, chosen = ballot
    best, rating = answers[chosen]
    if best is None or len(answers) == 1:
        yield DataError("the chosen response is empty or the only one", field=chosen)
        return
    split = split_of(choice_key(columns["question"]), test_share=0.5, seed=0)
    shared = {**columns, "chosen": best, "chosen_rating": rating, "split": split}
    forms = {"", normal_form(best)}
    for k, (place, (text, number)) in enumerate(answers.items(), 1):
        form = normal_form(text or "")
        if place != chosen and form in forms:
            yield DataError("the text of another response" if form else "missing", field=place)
        elif place != chosen:
            forms.add(form)
            name, tie = f"{columns['id']}-{k}", number is not None and number == rating
            yield shared | {"id": name, "rejected": text, "rejected_rating": number, "tie": tie}


def load_ballots(
    file: Path, columns: Collection[str], read: Callable[[Row], Ballot], options: LoadOptions
) -> LoadedRows:
    """Return rows by conversation, and bad ones; `BenchmarkError` for columns or a layout."""
    if options.columns or options.layout != LayoutOptions():
        refused = "--map, --layout, --vote, --pairs and --posts"
        raise BenchmarkError(f"{file.name} is read by its own columns: leave out {refused}")
    ballots: dict[str, tuple[Ballot, int]] = {}
    bad: list[tuple[int, DataError]] = []
    for number, line in read_lines(file, columns, options):
        try:
            ballot = read(line)
        except DataError as error:
            bad.append((number, error))
            continue
        name, entry = ballot[0]["id"], (ballot, number)
        if name in ballots:
            bad.append((number, DataError(f"the conversation {name!r} is there twice")))
            entry = min(ballots[name], entry, key=repr)  # the same one in whichever order
        ballots[name] = entry
    in_order = (ballots[name] for name in sorted(ballots))
    rows = ((number, row) for ballot, number in in_order for row in ballot_rows(ballot))
    account = Account(str(file), "its own", {name: name for name in columns})
    return collect(chain(bad, rows), account, "all", replace(options, skip_bad_rows=True))


def read_lines(file: Path, columns: Collection[str], options: LoadOptions) -> Lines:
    """Yield numbered lines; raises `DataError` at their end for a column that none of them has."""
    absent, read = list(columns), False
    for number, line in read_file(file, FileReading(max_line=options.max_line, structured=())):
        if isinstance(line, Mapping):
            absent, read = [name for name in absent if name not in line], True
        yield number, line
    if read and absent:
        raise DataError("no such column", file=str(file), field=absent[0])


def cells(line: Row | DataError, *columns: str) -> list[str]:
    """Return the texts or whole numbers in these columns; raises `DataError` for what is none."""
    if not isinstance(line, Mapping):
        raise line if isinstance(line, DataError) else DataError("expected an object")
    for column in columns:
        if line.get(column) is None:
            raise DataError("missing", field=column)
    return [read_identifier(line[column], column) for column in columns]


PRISM_REPOSITORY = "HannahRoseKirk/prism-alignment"
PRISM_FILES = ("conversations.jsonl", "survey.jsonl")
PRISM_HISTORY = "conversation_history"
PRISM_CONVERSATION = ("conversation_id", "user_id")
PRISM_POSTS, PRISM_TRAITS = ("self_description", "system_string"), ("age", "gender", "education")
PRISM_SURVEY = ("user_id", *PRISM_POSTS, *PRISM_TRAITS, "location")
PRISM_NO_TEXT = ("", "EMPTY STRING")  # the data set writes it out


def _load_prism(options: LoadOptions) -> Dataset:
    (conversations, survey), commit = options.files(PRISM_REPOSITORY, PRISM_FILES)
    read = partial(_prism_ballot, people=_people(survey, options))
    loaded = load_ballots(conversations, (*PRISM_CONVERSATION, PRISM_HISTORY), read, options)
    return Dataset(PRISM.name, revision=commit, **loaded.fields(options))


def _people(file: Path, options: LoadOptions) -> dict[str, Row]:
    people: dict[str, Row] = {}
    for number, line in read_lines(file, PRISM_SURVEY, options):
        try:
            (user,) = cells(line, "user_id")
            if user in people:
                raise DataError(f"{user!r} is there twice", field="user_id")
        except DataError as error:
            raise error.at(file, number) from None
        people[user] = line
    return people


def _prism_ballot(row: Row, people: Mapping[str, Row]) -> Ballot:
    name, user = cells(row, *PRISM_CONVERSATION)
    person = people.get(user)
    if person is None:
        raise DataError(f"{user!r} is not in {PRISM_FILES[1]}", field="user_id")
    turns = row.get(PRISM_HISTORY)
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        raise DataError("expected a list of objects", field=PRISM_HISTORY)
    opening = {
        f"{PRISM_HISTORY}[{k}]": turn for k, turn in enumerate(turns) if turn.get("turn") == 0
    }
    prompts = [t for turn in opening.values() if turn.get("role") == "user" and (t := _text(turn))]
    given = {place: turn for place, turn in opening.items() if turn.get("role") == "model"}
    chosen = [place for place, turn in given.items() if turn.get("if_chosen") is True]
    if len(prompts) != 1 or len(chosen) != 1:
        raise DataError(
            f"turn 0: {len(prompts)} prompts, {len(chosen)} choices", field=PRISM_HISTORY
        )
    place = person.get("location")
    residence = place.get("reside_country") if isinstance(place, Mapping) else None
    columns = {
        "id": name,
        "user_id": user,
        "question": prompts[0],
        "profile": [{"id": n, "text": text} for n in PRISM_POSTS if (text := _text(person, n))],
        "traits": {trait: person.get(trait) for trait in PRISM_TRAITS} | {"residence": residence},
        "rating_scale": [1, 100],
        "date": row.get("generated_datetime"),
    }
    answers = {place: (_text(turn), turn.get("score")) for place, turn in given.items()}
    return columns, answers, chosen[0]


def _text(row: Row, column: str = "content") -> str | None:
    text = row.get(column)
    return text if isinstance(text, str) and text.strip() not in PRISM_NO_TEXT else None


PRISM = Benchmark(
    name="prism",
    description="1,396 people's choices among up to four responses, each rated from 1 to 100",
    loader=_load_prism,
    licence="people's texts CC BY 4.0, models' CC BY-NC 4.0 (dataset card)",
    citation="Kirk, H. R. et al. (2024). The PRISM Alignment Project. arXiv 2404.16019.",
)


COMMUNITY_REPOSITORY = "facebook/community-alignment-dataset"
COMMUNITY_FILE = "community_alignment.csv"
COMMUNITY_PROMPT, COMMUNITY_PREFERRED = "first_turn_prompt", "first_turn_preferred_response"
COMMUNITY_NEEDED = (
    "conversation_id",
    "annotator_id",
    "assigned_lang",
    COMMUNITY_PROMPT,
    COMMUNITY_PREFERRED,
)
COMMUNITY_FEEDBACK = "first_turn_feedback"
COMMUNITY_RESPONSES = tuple(f"first_turn_response_{letter}" for letter in "abcd")
COMMUNITY_TRAITS = ("age", "gender", "education_level", "political", "ethnicity", "country")
COMMUNITY_COLUMNS = (
    *COMMUNITY_NEEDED,
    COMMUNITY_FEEDBACK,
    *COMMUNITY_RESPONSES,
    *(f"annotator_{trait}" for trait in COMMUNITY_TRAITS),
)


def _load_community(options: LoadOptions) -> Dataset:
    (file,), commit = options.files(COMMUNITY_REPOSITORY, [COMMUNITY_FILE])
    loaded = load_ballots(file, COMMUNITY_COLUMNS, _community_ballot, options)
    rows, account = tuple(_with_posts(loaded.rows)), loaded.account
    account.count(rows)
    return Dataset(COMMUNITY_ALIGNMENT.name, rows, commit, loaded.bad_rows, account=account)


def _community_ballot(row: Row) -> Ballot:
    name, user, language, prompt, preferred = cells(row, *COMMUNITY_NEEDED)
    chosen = f"first_turn_{preferred}"
    if chosen not in COMMUNITY_RESPONSES:
        raise DataError(
            f"{preferred!r} is none of response_a to response_d", field=COMMUNITY_PREFERRED
        )
    columns = {
        "id": name,
        "user_id": user,
        "subset": language,
        "question": prompt.replace(DATA_END, ""),
        "narrative": _response(row, COMMUNITY_FEEDBACK),
        "traits": {
            trait.removesuffix("_level"): row.get(f"annotator_{trait}")
            for trait in COMMUNITY_TRAITS
        },
    }
    answers = {column: (_response(row, column), None) for column in COMMUNITY_RESPONSES}
    return columns, answers, chosen


def _response(row: Row, column: str) -> str | None:
    text = (row.get(column) or "").replace(DATA_END, "")
    return text if text.strip() else None


def _with_posts(rows: Sequence[Question]) -> Iterator[Question]:
    """Give a conversation's rows (all the same) posts of other prompts, less what tells."""
    conversations = grouped(rows, lambda row: row.id.rpartition("-")[0])
    wrote: dict[str, list[tuple[str, str, Post]]] = defaultdict(list)
    for name, (row, *_) in conversations.items():
        if (text := row.gold.narrative) is not None:
            wrote[row.user_id].append((row.normal_key, normal(text), Post(id=name, text=text)))
    left_out = 0
    for ballot in conversations.values():
        key, reason = ballot[0].normal_key, normal(ballot[0].gold.narrative or "")
        telling = tuple({text for row in ballot for text in forbidden_texts(row.view)})
        others = [(text, post) for asked, text, post in wrote[ballot[0].user_id] if asked != key]
        posts = tuple(post for text, post in others if text != reason and not holds(text, telling))
        left_out += len(others) - len(posts)
        yield from (row.model_copy(update={"profile": posts}) for row in ballot)
    if left_out:
        text = "%s: %d posts tell of another choice: left out there"
        logging.getLogger("palate").warning(text, COMMUNITY_ALIGNMENT.name, left_out)


COMMUNITY_ALIGNMENT = Benchmark(
    name="community-alignment",
    description="choices of 3,500 people among four responses; ten or more answered 2,500 prompts",
    loader=_load_community,
    licence="CC BY 4.0 (dataset card)",
    citation="Zhang, L. H., Milli, S. et al. (2025). Community Alignment. arXiv 2507.09650.",
)
