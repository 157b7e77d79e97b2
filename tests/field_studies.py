"""Made files in the layouts of Community Alignment and of PRISM: people of a planted taste."""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import palate

TASTES = ("brief", "vivid", "sober", "witty")
LETTERS = "abcd"
END = "<|end_of_text|>"
CSV, CONVERSATIONS, SURVEY = "community_alignment.csv", "conversations.jsonl", "survey.jsonl"


def row(name: str, person: str, prompt: str, best: str, **more: Any) -> dict[str, Any]:
    """Return a line of Community Alignment: each response is of one taste."""
    responses = {
        f"first_turn_response_{letter}": f"A {taste} text that replies to {prompt}{END}"
        for letter, taste in zip(LETTERS, TASTES, strict=True)
    }
    told = {
        "conversation_id": name, "annotator_id": person, "assigned_lang": "en",
        "first_turn_prompt": prompt, "first_turn_preferred_response": f"response_{best}",
        "first_turn_feedback": "", "annotator_age": "18-34", "annotator_gender": "female",
        "annotator_education_level": "college", "annotator_political": "left",
        "annotator_ethnicity": "", "annotator_country": "india",
    }  # fmt: skip
    return told | responses | more


def votes(people: int, prompts: int, each: int, seed: int) -> Iterator[tuple[int, int, str]]:
    """Yield (person, prompt, letter of the chosen response): nineteen of twenty by the taste."""
    draw = random.Random(seed)
    for person in range(people):
        for prompt in draw.sample(range(prompts), each):
            off = draw.random() < 0.05
            yield person, prompt, draw.choice(LETTERS) if off else LETTERS[person % len(LETTERS)]


def alignment(people: int = 60, prompts: int = 16, each: int = 8, seed: int = 0) -> list[dict]:
    """Return the lines of people who write of their taste beside two of three choices."""
    lines = []
    for k, (who, prompt, best) in enumerate(votes(people, prompts, each, seed)):
        told = f"Prompt {prompt}: I take {TASTES[who % len(TASTES)]} ones.{END}" if k % 3 else ""
        line = row(f"{1000 + k}", f"p{who}", f"what is lamp {prompt}", best)
        lines.append(line | {"first_turn_feedback": told})
    return lines


def conversation(name: str, person: str, prompt: str, best: str, **more: Any) -> dict[str, Any]:
    """Return a line of PRISM with two turns; the chosen response has 80, the others 10 to 40."""
    answers = [
        {
            "turn": 0, "role": "model", "content": f"A {taste} text that replies to {prompt}",
            "score": 80 if letter == best else 10 * (k + 1), "if_chosen": letter == best,
        }
        for k, (letter, taste) in enumerate(zip(LETTERS, TASTES, strict=True))
    ]  # fmt: skip
    later = [
        {"turn": 1, "role": "user", "content": "And now?"},
        {"turn": 1, "role": "model", "content": "Later.", "score": 50, "if_chosen": True},
    ]
    asked = {"turn": 0, "role": "user", "content": prompt}
    history = [asked, *answers, *later]
    return {"conversation_id": name, "user_id": person, "conversation_history": history} | more


def person(name: str, taste: str, **more: Any) -> dict[str, Any]:
    """Return a line of PRISM's survey."""
    return {
        "user_id": name, "self_description": f"I am {name}. I like what is {taste}.",
        "system_string": f"Write {taste} texts for {name}.", "age": "25-34 years old",
        "gender": "Female", "education": "Some University", "religion": {"simplified": "none"},
        "location": {"birth_country": "Chile", "reside_country": "Peru"},
    } | more  # fmt: skip


def prism(people: int = 60, prompts: int = 16, each: int = 8, seed: int = 0) -> tuple[list, list]:
    """Return conversations and survey of people who share their prompts."""
    lines = [
        conversation(f"c{k}", f"user{who}", f"what is lamp {prompt}", best)
        for k, (who, prompt, best) in enumerate(votes(people, prompts, each, seed))
    ]
    return lines, [person(f"user{k}", TASTES[k % len(TASTES)]) for k in range(people)]


def write_csv(folder: Path, lines: Iterable[Mapping[str, Any]], newline: str = "\n") -> Path:
    lines = list(lines)
    with (folder / CSV).open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator=newline)
        writer.writeheader()
        writer.writerows(lines)
    return folder


def write_prism(folder: Path, lines: Iterable[Any], people: Iterable[Any]) -> Path:
    for name, written in ((CONVERSATIONS, lines), (SURVEY, people)):
        text = "".join(json.dumps(line) + "\n" for line in written)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


class TasteReader:
    """Scores 1 a response of a taste that the shown posts name, and 0 another."""

    def score(self, slates: Any) -> Iterator[tuple[int, palate.Scores]]:
        for position, slate in enumerate(slates):
            shown = " ".join(part.text for part in slate.shown)
            named = [taste for taste in TASTES if taste in shown]
            values = tuple(float(any(t in text for t in named)) for text in slate.candidates)
            yield position, palate.Scores(values=values)
