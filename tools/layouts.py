"""One small file for every layout, file format and type that palate reads, and for every refusal.

    python tools/layouts.py [--keep FOLDER]

Prints what was expected of each against what was read: rows, users, ties, couples of opposite
votes, earlier turns; and of a bad file the line that refuses it. Exits 1 where they differ.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from palate.benchmarks import Dataset, LoadOptions, couple_votes, find_benchmark
from palate.data import LayoutOptions, parse_columns, parse_votes
from palate.errors import PalateError
from palate.records import PreferencePair

Rows = Sequence[Mapping[str, Any]]


class Read(NamedTuple):
    """What is expected of a file, or was read in it."""

    layout: str
    rows: int
    users: int
    ties: int
    couples: int
    turns: int

    def __str__(self) -> str:
        return (
            f"{self.layout:<14} {self.rows:>4} {self.users:>5} {self.ties:>4} {self.couples:>7} "
            f"{self.turns:>5}"
        )


class Case(NamedTuple):
    """A file, how it is read, and what is expected of it."""

    name: str
    rows: Rows
    expected: Read | str
    """Or words of the line that refuses it."""
    file: str = "file.jsonl"
    options: Mapping[str, Any] = {}
    posts: Rows = ()


TEA, GREEN, BLACK = "Which tea?", "Green tea, mild.", "Black tea, strong."
WALK, SEA, HILL = "Where to walk?", "By the sea.", "Up the hill."
HI = ("Hi", "Hello.")
VOTES = (("ann", TEA, GREEN, BLACK, "a"), ("bob", TEA, GREEN, BLACK, "b"),
         ("ann", WALK, SEA, HILL, "tie"))  # fmt: skip
"""Three votes of two users: one couple, one tie."""


VOTED_A = tuple(
    {"annotator": u, "prompt": TEA, "response_a": GREEN, "response_b": BLACK}
    for u in ("ann", "bob")
)
"""Two rows without a vote."""


def user(text: str) -> dict[str, str]:
    """Return a user's message."""
    return {"role": "user", "content": text}


def bot(text: str) -> dict[str, str]:
    """Return an assistant's message."""
    return {"role": "assistant", "content": text}


def votes(make: Callable[..., Mapping[str, Any]]) -> Rows:
    """Return the three votes in some form."""
    return [make(*vote) for vote in VOTES]


def choices(make: Callable[[str, str, str, str], Mapping[str, Any]]) -> Rows:
    """Return the two decided votes as (user, question, chosen, rejected) in some form."""
    return [make("ann", TEA, GREEN, BLACK), make("bob", TEA, BLACK, GREEN)]


def named(a: object, b: object, tie: object) -> Callable[[str], object]:
    """Return how a vote is written."""
    return {"a": a, "b": b, "tie": tie}.__getitem__


def vote(column: str, a: object, b: object, tie: object, **more: Any) -> Rows:
    """Return the votes with their choice in this column."""
    write = named(a, b, tie)
    first, second = more.pop("columns", ("response_a", "response_b"))
    who, prompt = more.pop("who", "annotator"), more.pop("prompt", "prompt")
    return votes(lambda u, q, x, y, side: {
        who: u, prompt: q, first: x, second: y, column: write(side), **more,
    })  # fmt: skip


TWO, THREE = Read("preference", 2, 2, 0, 1, 0), Read("vote", 3, 2, 1, 1, 0)
CONTRACT = Read("contract", 2, 2, 0, 1, 0)


def contract(u: str, q: str, chosen: str, rejected: str) -> dict[str, Any]:
    """Return a row of palate's own columns."""
    return {"id": f"{u}-{q}", "user_id": u, "question": q, "chosen": chosen, "rejected": rejected}


def hh(q: str, a: str) -> str:
    """Return a transcript with an earlier turn."""
    return f"\n\nHuman: {HI[0]}\n\nAssistant: {HI[1]}\n\nHuman: {q}\n\nAssistant: {a}"


def scored(u: str, green: float, black: float) -> dict[str, Any]:
    """Return completions with scores."""
    return {"annotator": u, "instruction": TEA, "completions": [
        {"response": GREEN, "overall_score": green, "model": "x"},
        {"response": BLACK, "overall_score": black, "model": "y"},
        {"response": "Water.", "overall_score": 1, "model": "z"},
    ]}  # fmt: skip


def cases() -> Iterator[Case]:
    """Yield every case."""
    import layouts_public  # which takes this file's forms

    yield from layouts_public.cases()
    yield from messages()
    yield from two_responses()
    yield from many_responses()
    yield from published()
    yield from types()
    yield from formats()
    yield from refusals()


def messages() -> Iterator[Case]:
    """Yield chosen and rejected in every form."""
    yield Case("contract", choices(contract), CONTRACT)
    yield Case(
        "TRL standard",
        choices(lambda u, q, c, r: {"user": u, "prompt": q, "chosen": c, "rejected": r}),
        TWO,
    )
    yield Case(
        "TRL conversational",
        choices(
            lambda u, q, c, r: {
                "user": u,
                "prompt": [user(q)],
                "chosen": [bot(c)],
                "rejected": [bot(r)],
            }
        ),
        TWO,
    )
    yield Case(
        "TRL implicit prompt",
        choices(lambda u, q, c, r: {"user": u, "chosen": f"{q} {c}", "rejected": f"{q} {r}"}),
        TWO,
    )
    yield Case(
        "TRL implicit, conversational",
        choices(
            lambda u, q, c, r: {
                "user": u,
                "chosen": [user(q), bot(c)],
                "rejected": [user(q), bot(r)],
            }
        ),
        TWO,
    )
    yield Case(
        "UltraFeedback binarized",
        choices(
            lambda u, q, c, r: {
                "user": u,
                "prompt": q,
                "prompt_id": "7",
                "chosen": [user(q), bot(c)],
                "rejected": [user(q), bot(r)],
                "messages": [user(q), bot(c)],
                "score_chosen": 8.0,
                "score_rejected": 6.5,
            }
        ),
        TWO,
    )
    yield Case(
        "system and earlier turns",
        choices(
            lambda u, q, c, r: {
                "user": u,
                "prompt": [
                    {"role": "system", "content": "Be brief."},
                    user(HI[0]),
                    bot(HI[1]),
                    user(q),
                ],
                "chosen": [bot(c)],
                "rejected": [bot(r)],
            }
        ),
        TWO._replace(turns=2),
    )
    yield Case(
        "from and value",
        choices(
            lambda u, q, c, r: {
                "user": u,
                "chosen": [{"from": "human", "value": q}, {"from": "gpt", "value": c}],
                "rejected": [{"from": "human", "value": q}, {"from": "gpt", "value": r}],
            }
        ),
        TWO,
    )
    yield Case(
        "blocks of text",
        choices(
            lambda u, q, c, r: {
                "user": u,
                "chosen": [
                    user(q),
                    {"role": "assistant", "content": [{"type": "text", "text": c}]},
                ],
                "rejected": [user(q), bot(r)],
            }
        ),
        TWO,
    )
    yield Case(
        "HH transcripts",
        choices(lambda u, q, c, r: {"user": u, "chosen": hh(q, c), "rejected": hh(q, r)}),
        TWO._replace(turns=2),
    )
    yield Case(
        "messages as JSON in a text",
        choices(
            lambda u, q, c, r: {
                "user": u,
                "chosen": json.dumps([user(q), bot(c)]),
                "rejected": json.dumps([user(q), bot(r)]),
            }
        ),
        TWO,
    )


def two_responses() -> Iterator[Case]:
    """Yield votes in every form."""
    yield Case("winner by column's name", vote("winner", "response_a", "response_b", "tie"), THREE)
    yield Case("preference A/B", vote("preference", "A", "B", "tie"), THREE)
    yield Case(
        "winner by model's name",
        vote("winner", "x-7b", "y-7b", "tie", model_a="x-7b", model_b="y-7b"),
        THREE,
    )
    yield Case(
        "Chatbot Arena",
        votes(
            lambda u, q, x, y, side: {
                "question_id": "7",
                "judge": u,
                "model_a": "x",
                "model_b": "y",
                "winner": named("model_a", "model_b", "tie (bothbad)")(side),
                "conversation_a": [user(q), bot(x)],
                "conversation_b": [user(q), bot(y)],
                "turn": 1,
                "language": "English",
            }
        ),
        THREE,
    )
    yield Case(
        "Chatbot Arena, two turns",
        votes(
            lambda u, q, x, y, side: {
                "judge": u,
                "winner": named("model_a", "model_b", "both_bad")(side),
                "conversation_a": [user(HI[0]), bot(HI[1]), user(q), bot(x)],
                "conversation_b": [user(HI[0]), bot(HI[1]), user(q), bot(y)],
            }
        ),
        THREE._replace(turns=3),
    )
    yield Case(
        "arena, one-hot, lists as JSON",
        votes(
            lambda u, q, x, y, side: {
                "user": u,
                "prompt": json.dumps([q]),
                "response_a": json.dumps([x]),
                "response_b": json.dumps([y]),
                "winner_model_a": int(side == "a"),
                "winner_model_b": int(side == "b"),
                "winner_tie": int(side == "tie"),
            }
        ),
        THREE,
    )
    yield from _numbers_as_votes()
    yield Case(
        "choice 0/1 of answer_0, answer_1",
        vote("choice", 0, 1, "tie", columns=("answer_0", "answer_1")),
        THREE,
    )
    yield Case(
        "HelpSteer 3",
        votes(
            lambda u, q, x, y, side: {
                "annotator_id": u,
                "domain": "general",
                "context": [user(q)],
                "response1": x,
                "response2": y,
                "overall_preference": named(-2, 3, 0)(side),
            }
        ),
        THREE,
    )
    yield Case(
        "HelpSteer 2 preference",
        votes(
            lambda u, q, x, y, side: {
                "worker": u,
                "split": None,
                "prompt": q,
                "response_1": x,
                "response_2": y,
                "preference_strength": named(-1, 2, 0)(side),
            }
        ),
        THREE,
    )
    yield Case(
        "SHP",
        choices(
            lambda u, q, c, r: {
                "user": u,
                "history": q,
                "human_ref_A": GREEN,
                "human_ref_B": BLACK,
                "labels": int(c == GREEN),
            }
        ),
        Read("vote", 2, 2, 0, 1, 0),
    )
    yield Case(
        "WebGPT: two scores",
        votes(
            lambda u, q, x, y, side: {
                "worker": u,
                "question": {"dataset": "eli5", "full_text": q},
                "answer_0": x,
                "answer_1": y,
                "score_0": named(1.0, -1.0, 0.0)(side),
                "score_1": named(-1.0, 1.0, 0.0)(side),
            }
        ),
        THREE,
    )
    yield Case(
        "label 0/1 told by --vote",
        vote("label", 1, 0, 2)[:2],
        Read("vote", 2, 2, 0, 1, 0),
        options={"votes": parse_votes(["1=first", "0=second"])},
    )
    yield Case(
        "several annotators in a row",
        [
            {
                "prompt": TEA,
                "response_a": GREEN,
                "response_b": BLACK,
                "votes": [
                    {"annotator": "ann", "vote": "a"},
                    {"annotator": "bob", "vote": "b"},
                    {"annotator": "cy", "vote": "tie"},
                ],
            }
        ],
        Read("vote", 3, 3, 1, 1, 0),
    )
    yield Case("both bad", vote("winner", "model_a", "model_b", "both bad"), THREE)
    yield Case(
        "left and right",
        vote("winner", "left", "right", "equal", columns=("text_left", "text_right")),
        THREE,
    )


def many_responses() -> Iterator[Case]:
    """Yield ranks and scores."""
    six = [scored("ann", 9, 5), scored("bob", 4, 8)]
    yield Case("UltraFeedback, all pairs", six, Read("rated", 6, 2, 0, 1, 0))
    yield Case(
        "UltraFeedback, best-worst",
        six,
        Read("rated", 2, 2, 0, 0, 0),
        options={"pairs": "best-worst"},
    )
    yield Case(
        "UltraFeedback, adjacent", six, Read("rated", 4, 2, 0, 1, 0), options={"pairs": "adjacent"}
    )
    yield Case("scores that tie", [scored("ann", 5, 5)], Read("rated", 3, 1, 1, 0, 0))
    yield Case(
        "Nectar: ranks",
        [
            {
                "prompt": hh(TEA, ""),
                "turns": 2,
                "answers": [{"answer": GREEN, "rank": 1.0}, {"answer": BLACK, "rank": 2.0}],
            }
        ],
        Read("rated", 1, 1, 0, 0, 1),
    )
    yield Case(
        "lists of responses and scores",
        [
            {"user": "ann", "prompt": TEA, "responses": [GREEN, BLACK], "scores": [3, 1]},
            {"user": "bob", "prompt": TEA, "responses": [GREEN, BLACK], "scores": [1, 3]},
        ],
        Read("rated", 2, 2, 0, 1, 0),
    )
    yield Case(
        "PRISM: a row for each response",
        [
            {"user_id": u, "user_prompt": TEA, "model_response": text, "score": score, "turn": 0}
            for u, text, score in (
                ("ann", GREEN, 90),
                ("ann", BLACK, 20),
                ("bob", GREEN, 10),
                ("bob", BLACK, 60),
            )
        ],
        Read("rated-rows", 2, 2, 0, 1, 0),
    )
    yield Case(
        "TL;DR comparisons: the number of the chosen summary",
        choices(
            lambda u, q, c, r: {
                "info": {"id": "t3", "post": q, "title": "Tea", "article": None},
                "summaries": [{"text": GREEN, "policy": "sup"}, {"text": BLACK, "policy": "ref"}],
                "choice": int(c == BLACK),
                "worker": u,
            }
        ),
        Read("choice", 2, 2, 0, 1, 0),
    )
    yield Case(
        "PKU-SafeRLHF: better_response_id",
        choices(
            lambda u, q, c, r: {
                "worker": u,
                "prompt": q,
                "response_0": GREEN,
                "response_1": BLACK,
                "is_response_0_safe": True,
                "better_response_id": int(c == BLACK),
                "safer_response_id": 0,
            }
        ),
        Read("vote", 2, 2, 0, 1, 0),
    )
    yield Case(
        "paired Stack Exchange: response_j, response_k",
        choices(lambda u, q, c, r: {"user": u, "question": q, "response_j": c, "response_k": r}),
        Read("preference", 2, 2, 0, 1, 0),
    )
    yield Case(
        "HelpSteer: a row each",
        [
            {"user": u, "prompt": TEA, "response": text, "helpfulness": score}
            for u, text, score in (
                ("ann", GREEN, 4),
                ("ann", BLACK, 1),
                ("bob", GREEN, 2),
                ("bob", BLACK, 3),
            )
        ],
        Read("rated-rows", 2, 2, 0, 1, 0),
    )
    yield Case(
        "TRL unpaired",
        [
            {"prompt": TEA, "completion": GREEN, "label": True},
            {"prompt": TEA, "completion": BLACK, "label": False},
        ],
        Read("rated-rows", 1, 1, 0, 0, 0),
    )


def published() -> Iterator[Case]:
    """Yield data sets with columns of their own."""
    yield Case(
        "RewardBench",
        [
            {
                "id": 30,
                "prompt": TEA,
                "chosen": GREEN,
                "chosen_model": "x",
                "rejected": BLACK,
                "rejected_model": "y",
                "subset": "alpacaeval-easy",
            }
        ],
        Read("preference", 1, 1, 0, 0, 0),
    )
    yield Case(
        "RewardBench 2",
        [
            {
                "id": "7",
                "prompt": TEA,
                "chosen": [GREEN],
                "rejected": [BLACK, "Water.", "None."],
                "num_correct": 1,
                "num_incorrect": 3,
                "subset": "Factuality",
            }
        ],
        Read("rewardbench-2", 3, 3, 0, 0, 0),
    )
    yield Case(
        "LaMP",
        [
            {
                "id": "410",
                "input": "Write a headline: the sea",
                "profile": [{"id": "1", "text": "Waves.", "title": "Of waves"}],
            }
        ],
        Read("lamp", 1, 1, 0, 0, 0),
    )
    yield Case(
        "LongLaMP",
        [
            {
                "reviewerId": "A1",
                "input": "Write the review of a kettle.",
                "output": "It boils.",
                "profile": [
                    {
                        "reviewText": "A pan.",
                        "summary": "Good",
                        "overall": "5.0",
                        "description": "Pan",
                    }
                ],
            }
        ],
        Read("lamp", 1, 1, 0, 0, 0),
    )
    yield Case(
        "LaMP-QA",
        [
            {
                "id": "7",
                "question": TEA,
                "category": "Food",
                "narrative": "I ask.",
                "profile": [{"id": "1", "text": "I like it mild."}],
                "rubric_aspects": [{"aspect": "Mild", "reason": "Said so.", "evidence": "mild"}],
            }
        ],
        Read("contract", 1, 1, 0, 0, 0),
    )
    yield Case(
        "PersonalLLM",
        [
            {
                "person_id": k,
                "person_weight": [0.1],
                "prompt_1": TEA,
                "response_1_a": GREEN,
                "response_1_b": BLACK,
                "chosen_1": side,
                "prompt_2": WALK,
                "response_2_a": SEA,
                "response_2_b": HILL,
                "chosen_2": "a",
                "length": 2,
            }
            for k, side in enumerate("ab")
        ],
        Read("personalllm", 4, 2, 0, 1, 0),
    )
    rows = choices(lambda u, q, c, r: {"user": u, "prompt": q, "chosen": c, "rejected": r})
    yield Case(
        "posts in a second file",
        rows,
        TWO,
        posts=[
            {"user_id": "ann", "text": "I like it mild.", "date": "2026-01-02"},
            {"user_id": "bob", "text": "I like it strong.", "date": "2026-01-03"},
        ],
    )


def types() -> Iterator[Case]:
    """Yield types as people have them."""
    plain = choices(contract)
    two = [{**row, "id": float(k), "user_id": float(k)} for k, row in enumerate(plain)]
    yield Case("whole floats as ids", two, CONTRACT)
    yield Case("no id", [{k: v for k, v in row.items() if k != "id"} for row in plain], CONTRACT)
    yield Case(
        "NaN and empty cells",
        [
            {**row, "subset": float("nan"), "mirror_of": "", "chosen_rating": float("nan")}
            for row in plain
        ],
        CONTRACT,
    )
    yield Case(
        "tie as 0, 1 and true",
        [{**plain[0], "tie": 0}, {**plain[1], "tie": "true"}, {**plain[0], "id": "3", "tie": 1}],
        Read("contract", 3, 2, 2, 0, 0),
    )
    yield Case(
        "numbers as text",
        [
            {**row, "chosen_rating": "4.5", "rejected_rating": "2", "rating_scale": "[1, 5]"}
            for row in plain
        ],
        CONTRACT,
    )
    yield Case("posts as texts", [{**row, "profile": ["I like tea."]} for row in plain], CONTRACT)
    yield Case(
        "mapped",
        choices(lambda u, q, c, r: {"who": u, "prompt": q, "good": c, "bad": r}),
        TWO,
        options={"columns": ["user_id=who", "chosen=good", "rejected=bad"]},
    )


def formats() -> Iterator[Case]:
    """Yield every file format with the same votes."""
    rows = vote("winner", "a", "b", "tie")
    for ending in (
        ".jsonl",
        ".jsonl.gz",
        ".jsonl.zst",
        ".ndjson",
        ".json",
        ".json.gz",
        ".csv",
        ".csv.gz",
        ".csv.zst",
        ".tsv",
        ".parquet",
    ):
        yield Case(f"votes{ending}", rows, THREE, file=f"votes{ending}")
    yield Case("an object with one list", rows, THREE, file="object.json")
    yield Case("CSV with BOM and CRLF", rows, THREE, file="crlf.csv")
    yield Case("a folder of shards", rows, THREE, file="shards")


def refusals() -> Iterator[Case]:
    """Yield a bad file for each refusal."""
    rows = vote("winner", "a", "b", "tie")
    both = [{**row, "chosen": row["response_a"], "rejected": row["response_b"]} for row in rows]
    yield Case("two layouts", both, "could be of layout preference and vote; say which")
    yield Case("two layouts, one named", both, THREE, options={"name": "vote"})
    yield Case(
        "a layout that does not fit",
        rows,
        "not of layout lamp: no columns `input`",
        options={"name": "lamp"},
    )
    yield Case(
        "no such layout",
        rows,
        "--layout arena: expected one of contract",
        options={"name": "arena"},
    )
    yield Case("--layout none", rows, "missing; the row has", options={"name": "none"})
    yield Case(
        "a vote that is not in the list",
        [*rows, {**rows[0], "winner": "maybe"}, {**rows[0], "winner": "maybe"}],
        "the vote 'maybe' is not known",
    )
    yield Case(
        "label 0/1 beside a and b",
        vote("label", 1, 0, "tie")[:2],
        "say what that means (the first response is",
    )
    yield Case(
        "two columns of who", [{**row, "worker": "w"} for row in rows], "could each be who chose"
    )
    yield Case("half a pair", [{**rows[0], "response_b": None}, *rows[1:]], "half a pair")
    yield Case(
        "another beginning",
        [{"chosen": [user(TEA), bot(GREEN)], "rejected": [user(WALK), bot(BLACK)]}],
        "begins otherwise than `chosen`",
    )
    yield Case(
        "an image",
        [
            {
                "chosen": [user(TEA), {"role": "assistant", "content": [{"type": "image_url"}]}],
                "rejected": [user(TEA), bot(BLACK)],
            }
        ],
        "holds a block of 'image_url'",
    )
    yield Case(
        "does not end with the assistant",
        [{"chosen": [user(TEA)], "rejected": [user(TEA), bot(BLACK)]}],
        "does not end with the assistant",
    )
    yield Case(
        "a boolean as rating",
        [{**row, "chosen_rating": True} for row in choices(contract)],
        "expected a finite number, got True",
    )
    yield Case(
        "posts of nobody",
        rows,
        "no user of the rows has a post",
        posts=[{"user_id": "zoe", "text": "Hm."}],
    )
    yield Case("ragged CSV", rows, "ragged.csv:3: 6 cells", file="ragged.csv")
    yield Case("a .zst cut short", rows, "cut short", file="cut.jsonl.zst")
    yield Case("a folder of mixed formats", rows, "mixed", file="mixed")
    yield from _several_votes()
    yield from _whole_prompts()
    yield from _posts_in_other_columns()
    yield from _exports()


def _numbers_as_votes() -> Iterator[Case]:
    """Numbers that mean one thing alone, and those that are refused until they are told."""
    digits = ("response1", "response2")
    yield Case("label 1/2 of response1, response2", vote("label", 1, 2, "tie", columns=digits),
               THREE)  # fmt: skip
    yield Case("overall_preference −1/0/1", vote("overall_preference", -1, 1, 0), THREE)
    strong = [{**row, "preference_strength": 2} for row in VOTED_A]
    yield Case("preference_strength, one half", strong, Read("vote", 2, 2, 0, 0, 0))
    between = vote("preference", 1.00002, 1.99998, 1.5, columns=("output_1", "output_2"))
    yield Case("preference 1.0 to 2.0 (Alpaca Eval)", between, THREE)
    for name, rows, flags in (
        ("label 0/1/2", vote("label", 1, 2, 0), ["1=first", "2=second", "0=tie"]),
        ("label 0/1/2 beside digits", vote("label", 1, 2, 0, columns=digits),
         ["1=first", "2=second", "0=tie"]),
        ("label 0/1 beside digits", vote("label", 0, 1, "tie", columns=digits),
         ["0=first", "1=second"]),
        ("preference −1/0/1", vote("preference", -1, 1, 0), ["-1=first", "0=tie", "1=second"]),
        ("label 1 alone beside digits",
         [{**row, "label": 1} for row in vote("x", 1, 1, 1, columns=digits)], ["1=first"]),
    ):  # fmt: skip
        yield Case(name, rows, "say what that means (the first response is")
        told = Read("vote", 3, 2, 0, 0, 0) if flags == ["1=first"] else THREE
        yield Case(f"{name}, told", rows, told, options={"votes": parse_votes(flags)})


def _several_votes() -> Iterator[Case]:
    """Two columns that may each be the vote."""
    a = vote("winner", "a", "b", "tie")
    other = {"a": "b", "b": "a", "tie": "tie"}
    for name in ("preference", "vote", "label"):
        alike = [{**row, name: row["winner"]} for row in a]
        apart = [{**row, name: other[row["winner"]]} for row in a]
        yield Case(f"winner and {name}, alike", alike, THREE)
        yield Case(f"winner and {name}, apart", apart, "could each be the vote, and say different")
        yield Case(f"winner and {name}, told", apart, THREE,
                   options={"columns": ["winner=winner"]})  # fmt: skip
        yield Case(f"winner and {name}, the other told", apart, THREE,
                   options={"columns": [f"winner={name}"]})  # fmt: skip
    hot = [{k: v for k, v in row.items() if k != "winner"} | {
        "winner_a": int(row["winner"] == "a"), "winner_b": int(row["winner"] == "b"),
        "tie": int(row["winner"] == "tie"), "vote": other[row["winner"]]} for row in a]  # fmt: skip
    yield Case("one-hot and vote, apart", hot, "could each be the vote, and say different")
    yield Case("one-hot, vote left out", hot, THREE, options={"columns": ["extra=vote"]})
    yield Case("vote, one-hot passed over", hot, THREE, options={"columns": ["winner=vote"]})
    yield Case("winner and a label that is no vote", [{**row, "label": "harmless"} for row in a],
               THREE)  # fmt: skip


def _whole_prompts() -> Iterator[Case]:
    """What stands beside a question is asked too."""

    def pair(u: str, x: str, y: str, **more: Any) -> Mapping[str, Any]:
        return {"user_id": u, "question": TEA, "chosen": x, "rejected": y, **more}

    def two(name: str, first: object, second: object) -> Rows:
        return [pair("ann", GREEN, BLACK, **{name: first}), pair("bob", BLACK, GREEN,
                **{name: second})]  # fmt: skip

    one, turned = Read("contract", 2, 2, 0, 1, 0), Read("contract", 2, 2, 0, 0, 2)
    for name in ("system", "system_prompt"):
        yield Case(f"contract with {name}, apart", two(name, "In rhyme.", "In prose."), turned)
        yield Case(f"contract with {name}, alike", two(name, "In rhyme.", "In rhyme."),
                   turned._replace(couples=1))  # fmt: skip
    yield Case("contract with input, apart", two("input", "x", "y"), one._replace(couples=0))
    yield Case("contract with input, alike", two("input", "x", "x"), one)
    yield Case("contract with input, empty", two("input", "", ""), one)
    yield Case("contract with history", two("history", [list(HI)], []), one._replace(
        couples=0, turns=1))  # fmt: skip
    yield Case("history as messages", two("history", [user("Hi"), bot("Hello.")], []),
               one._replace(couples=0, turns=1))  # fmt: skip
    for name in ("context", "document", "passage", "Background"):
        yield Case(f"{name}, apart", two(name, "x", "y"), "differs where the question is the same")
        yield Case(f"{name}, alike", two(name, "x", "x"), one)
        yield Case(f"{name}, told as input", two(name, "x", "y"), one._replace(couples=0),
                   options={"columns": [f"input={name}"]})  # fmt: skip
        yield Case(f"{name}, told as extra", two(name, "x", "y"), one,
                   options={"columns": [f"extra={name}"]})  # fmt: skip
    yield Case("input that holds the question", two("input", f"Q: {TEA}", f"Q: {TEA}"),
               "holds the question and more")  # fmt: skip
    alpaca = [{"instruction": "Choose.", "input": q, "chosen": x, "rejected": y, "annotator": u}
              for u, q, x, y in (("ann", TEA, GREEN, BLACK), ("bob", WALK, HILL, SEA))]  # fmt: skip
    yield Case("Alpaca's instruction and input", alpaca, Read("preference", 2, 2, 0, 0, 0))


def _exports() -> Iterator[Case]:
    """What tools and providers export."""
    two = choices(lambda u, q, x, y: {"user_id": u, "q": q, "x": x, "y": y})
    openai = [{"user_id": row["user_id"], "input": {"messages": [user(row["q"])]},
               "preferred_output": [bot(row["x"])], "non_preferred_output": [bot(row["y"])]}
              for row in two]  # fmt: skip
    yield Case("OpenAI's preference file", openai, Read("openai", 2, 2, 0, 1, 0))
    for names in (("role", "content", "user", "assistant"), ("from", "value", "human", "gpt")):
        role, content, asks, answers = names
        factory = [{"user_id": row["user_id"],
                    "conversations": [{role: asks, content: row["q"]}],
                    "chosen": {role: answers, content: row["x"]},
                    "rejected": {role: answers, content: row["y"]}} for row in two]  # fmt: skip
        yield Case(f"LLaMA-Factory with {role}", factory, Read("llama-factory", 2, 2, 0, 1, 0))

    def task(k: int, q: str, x: str, y: str, **votes: str) -> Mapping[str, Any]:
        return {"id": k, "data": {"prompt": q, "answer1": x, "answer2": y}, "annotations": [
            {"id": 10 * k + j, "completed_by": {"id": j, "email": who},
             "was_cancelled": side == "no", "result": [] if side == "no" else [
                 {"type": "pairwise", "value": {"selected": side}}]}
            for j, (who, side) in enumerate(votes.items())]}  # fmt: skip

    tasks = [task(1, TEA, GREEN, BLACK, ann="left", bob="right", cid="no"),
             task(2, WALK, SEA, HILL, ann="left")]  # fmt: skip
    yield Case("Label Studio's JSON", tasks, Read("label-studio", 3, 2, 0, 1, 0), file="e.json")
    chosen = json.loads(json.dumps(tasks).replace('"selected": "left"', '"choices": ["answer1"]')
                        .replace('"selected": "right"', '"choices": ["answer2"]'))  # fmt: skip
    yield Case("Label Studio's choices", chosen, Read("label-studio", 3, 2, 0, 1, 0), file="c.json")
    argilla = [{"id": "t1", "prompt": TEA, "response1": GREEN, "response2": BLACK,
                "better.responses": ["response1", "response2", "response1"],
                "better.responses.users": ["ann", "bob", "cid"],
                "better.responses.status": ["submitted", "submitted", "discarded"]}]  # fmt: skip
    yield Case("Argilla's records", argilla, Read("argilla", 2, 2, 0, 1, 0))
    columns = [{"prompt": TEA, "response_a": GREEN, "response_b": BLACK, "annotator_1": "a",
                "annotator_2": "b", "annotator_3": None}]  # fmt: skip
    yield Case("a column for each annotator", columns, Read("vote", 2, 2, 0, 1, 0))
    tree = [{"message_tree_id": "m", "prompt": {"message_id": "m", "role": "prompter", "text": TEA,
             "replies": [
                 {"message_id": "a", "role": "assistant", "text": GREEN, "rank": 0, "replies": [
                     {"message_id": "c", "role": "prompter", "text": WALK, "replies": [
                         {"message_id": "d", "role": "assistant", "text": SEA, "rank": 1},
                         {"message_id": "e", "role": "assistant", "text": HILL, "rank": 0}]}]},
                 {"message_id": "b", "role": "assistant", "text": BLACK, "rank": 1}]}}]  # fmt: skip
    yield Case("OASST's trees", tree, Read("oasst", 2, 2, 0, 0, 1))
    capitals = vote("Winner", "a", "b", "tie", who="Annotator", prompt="Prompt",
                    columns=("Response A", "Response B"))  # fmt: skip
    yield Case("names in capitals", capitals, THREE)


def _posts_in_other_columns() -> Iterator[Case]:
    """A second file of posts whose columns have other names."""
    rows = choices(lambda u, q, x, y: {"user_id": u, "question": q, "chosen": x, "rejected": y})
    for name in ("date", "when", "created_at", "createdAt", "Timestamp", "publish_date"):
        posts = [{"annotator": "ann", "text": "I like green.", name: "2020-01-01"}]
        yield Case(f"posts with {name}", rows, Read("contract", 2, 2, 0, 1, 0), posts=posts)
    both = [{"user_id": "ann", "text": "Hm.", "created_at": "2020", "published_at": "2021"}]
    yield Case("posts with two dates", rows, "could each be the date", posts=both)
    yield Case("posts with two dates, told", rows, Read("contract", 2, 2, 0, 1, 0), posts=both,
               options={"posts_columns": {"date": "created_at"}})  # fmt: skip
    odd = [{"wer": "ann", "was": "Hm.", "wann": "2020"}]
    yield Case("posts in another language", rows, "no column of the user", posts=odd)
    yield Case("posts in another language, told", rows, Read("contract", 2, 2, 0, 1, 0), posts=odd,
               options={"posts_columns": {"user_id": "wer", "text": "was", "date": "wann"}}
               )  # fmt: skip


def write(rows: Rows, folder: Path, file: str) -> Path:
    """Write rows into a file, or a folder, of this name."""
    path = folder / file
    if file in ("shards", "mixed"):
        path.mkdir()
        for k, row in enumerate(rows):
            write([row], path, f"part-{k}{'.csv' if file == 'mixed' and k else '.jsonl'}")
        return path
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    if file == "object.json":
        path.write_text(json.dumps({"version": 1, "data": list(rows)}))
    elif ".json" in path.suffixes and ".jsonl" not in path.suffixes:
        _packed(path, json.dumps(list(rows)).encode())
    elif {".csv", ".tsv"} & set(path.suffixes):
        _packed(path, _csv(rows, file))
    elif path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), path)
    else:
        _packed(path, lines)
    if file.startswith("cut"):
        path.write_bytes(path.read_bytes()[:-6])
    return path


def _csv(rows: Rows, file: str) -> bytes:
    import io

    text = io.StringIO()
    end = "\r\n" if file.startswith("crlf") else "\n"
    writer = csv.DictWriter(
        text, list(rows[0]), delimiter="\t" if ".tsv" in file else ",", lineterminator=end
    )
    writer.writeheader()
    writer.writerows(rows)
    lines = text.getvalue()
    if file.startswith("ragged"):
        lines = lines.replace("bob,", "bob,more,", 1)
    return lines.encode("utf-8-sig" if file.startswith("crlf") else "utf-8")


def _packed(path: Path, content: bytes) -> None:
    if path.suffix == ".gz":
        content = gzip.compress(content)
    elif path.suffix == ".zst":
        import pyarrow as pa

        content = pa.compress(content, "zstd", asbytes=True)
    path.write_bytes(content)


def read(case: Case, folder: Path) -> Read | str:
    """Return what palate reads in a case's file, or the line that refuses it."""
    path = write(case.rows, folder, case.file)
    given = dict(case.options)
    columns = parse_columns(given.pop("columns", []))
    posts = write(case.posts, folder, "posts.jsonl") if case.posts else None
    options = LoadOptions(columns=columns, layout=LayoutOptions(posts=posts, **given))
    try:
        loaded = find_benchmark(str(path)).load(options)
    except PalateError as error:
        return str(error)
    return counted(loaded)


def counted(loaded: Dataset) -> Read:
    """Return the counts of a data set."""
    pairs = [row for row in loaded.rows if isinstance(row, PreferencePair)]
    decided = replace(loaded, rows=tuple(pair for pair in pairs if not pair.tie))
    users = {row.user_id for row in loaded.rows}
    layout = (loaded.reading or "layout contract").split(":", 1)[0].removeprefix("layout ")
    return Read(
        layout,
        len(loaded.rows),
        len(users),
        sum(pair.tie for pair in pairs),
        len(couple_votes(decided)) // 2 if decided.rows else 0,
        sum(bool(row.turns) for row in loaded.rows),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Write, read and compare every case; return 1 where one differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--keep", type=Path, help="a folder for the files, which are kept")
    keep = parser.parse_args(arguments).keep
    differ = 0
    with tempfile.TemporaryDirectory() as temporary:
        sys.stdout.write(f"{'':<36} {'layout':<14} rows users ties couples turns\n")
        for k, case in enumerate(cases()):
            folder = (keep or Path(temporary)) / f"{k:02d}"
            folder.mkdir(parents=True)
            outcome = read(case, folder)
            same = (
                case.expected in outcome
                if isinstance(case.expected, str) and isinstance(outcome, str)
                else case.expected == outcome
            )
            differ += not same
            shown = str(outcome).replace(f"{folder}/", "")
            sys.stdout.write(f"{case.name:<36} {shown}\n")
            if not same:
                sys.stdout.write(f"{'  expected':<36} {case.expected}\n")
    sys.stdout.write(f"{differ} differ\n" if differ else "all equal\n")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
