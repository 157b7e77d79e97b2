"""PRISM (arXiv 2404.16019): choices among up to four responses to people's own prompts, rated."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from palate.benchmarks.ballots import Ballot, Row, cells, load_ballots, read_lines
from palate.benchmarks.dataset import Dataset
from palate.benchmarks.registry import Benchmark
from palate.data import LoadOptions
from palate.errors import DataError

REPOSITORY, FILES = "HannahRoseKirk/prism-alignment", ("conversations.jsonl", "survey.jsonl")
HISTORY = "conversation_history"
CONVERSATION = ("conversation_id", "user_id")
POSTS, TRAITS = ("self_description", "system_string"), ("age", "gender", "education")
SURVEY = ("user_id", *POSTS, *TRAITS, "location")
NO_TEXT = ("", "EMPTY STRING")  # the data set writes it out


def _load(options: LoadOptions) -> Dataset:
    (conversations, survey), commit = options.files(REPOSITORY, FILES)
    read = partial(_ballot, people=_people(survey, options))
    loaded = load_ballots(conversations, (*CONVERSATION, HISTORY), read, options)
    return Dataset(BENCHMARK.name, revision=commit, **loaded.fields(options))


def _people(file: Path, options: LoadOptions) -> dict[str, Row]:
    people: dict[str, Row] = {}
    for number, line in read_lines(file, SURVEY, options):
        try:
            (user,) = cells(line, "user_id")
            if user in people:
                raise DataError(f"{user!r} is there twice", field="user_id")
        except DataError as error:
            raise error.at(file, number) from None
        people[user] = line
    return people


def _ballot(row: Row, people: Mapping[str, Row]) -> Ballot:
    name, user = cells(row, *CONVERSATION)
    person = people.get(user)
    if person is None:
        raise DataError(f"{user!r} is not in {FILES[1]}", field="user_id")
    turns = row.get(HISTORY)
    if not isinstance(turns, list) or not all(isinstance(turn, Mapping) for turn in turns):
        raise DataError("expected a list of objects", field=HISTORY)
    opening = {f"{HISTORY}[{k}]": turn for k, turn in enumerate(turns) if turn.get("turn") == 0}
    prompts = [t for turn in opening.values() if turn.get("role") == "user" and (t := _text(turn))]
    given = {place: turn for place, turn in opening.items() if turn.get("role") == "model"}
    chosen = [place for place, turn in given.items() if turn.get("if_chosen") is True]
    if len(prompts) != 1 or len(chosen) != 1:
        raise DataError(f"turn 0: {len(prompts)} prompts, {len(chosen)} choices", field=HISTORY)
    place = person.get("location")
    residence = place.get("reside_country") if isinstance(place, Mapping) else None
    columns = {
        "id": name,
        "user_id": user,
        "question": prompts[0],
        "profile": [{"id": n, "text": text} for n in POSTS if (text := _text(person, n))],
        "traits": {trait: person.get(trait) for trait in TRAITS} | {"residence": residence},
        "rating_scale": [1, 100],
        "date": row.get("generated_datetime"),
    }
    answers = {place: (_text(turn), turn.get("score")) for place, turn in given.items()}
    return columns, answers, chosen[0]


def _text(row: Row, column: str = "content") -> str | None:
    text = row.get(column)
    return text if isinstance(text, str) and text.strip() not in NO_TEXT else None


BENCHMARK = Benchmark(
    name="prism",
    description="1,396 people's choices among up to four responses, each rated from 1 to 100",
    loader=_load,
    licence="people's texts CC BY 4.0, models' CC BY-NC 4.0 (dataset card)",
    citation="Kirk, H. R. et al. (2024). The PRISM Alignment Project. arXiv 2404.16019.",
)
