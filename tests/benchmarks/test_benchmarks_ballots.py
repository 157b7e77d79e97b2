"""Community Alignment and PRISM: rows, couples, profiles and bad lines, against brute force."""

from __future__ import annotations

import logging
import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from field_studies import (
    CONVERSATIONS,
    CSV,
    END,
    LETTERS,
    SURVEY,
    TASTES,
    TasteReader,
    alignment,
    conversation,
    person,
    prism,
    row,
    write_csv,
    write_prism,
)
from hubs import COMMIT, read_by, serving
from palate.benchmarks import Dataset, LoadOptions, find_benchmark, load_benchmark
from palate.comparison import evaluate
from palate.data import LayoutOptions
from palate.errors import BenchmarkError, DataError

NAMES = ("community-alignment", "prism")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    both = {name: tmp_path_factory.mktemp(name) for name in NAMES}
    write_csv(both[NAMES[0]], alignment())
    write_prism(both[NAMES[1]], *prism())
    return both


def load(name: str, folder: Path, split: str | None = "all", **more: Any) -> Dataset:
    return load_benchmark(name, split=split, options=LoadOptions(source=folder), **more)


def of_csv(folder: Path, lines: Iterable[dict[str, Any]]) -> Dataset:
    return load(NAMES[0], write_csv(folder, lines))


def of_prism(folder: Path, lines: list[Any], *people: dict[str, Any]) -> Dataset:
    survey = list(people) or [person("ann", "vivid")]
    return load("prism", write_prism(folder, lines, survey))


def choices(name: str) -> list[tuple[str, str, str, str]]:
    """Return (conversation, person, prompt, chosen letter) as they were written."""
    if name == NAMES[0]:
        return [
            (line["conversation_id"], line["annotator_id"], line["first_turn_prompt"],
             line["first_turn_preferred_response"][-1])
            for line in alignment()
        ]  # fmt: skip
    made = []
    for line in prism()[0]:
        asked, *answers = line["conversation_history"][:5]
        best = LETTERS[[turn["if_chosen"] for turn in answers].index(True)]
        made.append((line["conversation_id"], line["user_id"], asked["content"], best))
    return made


def most_couples(chosen: Iterable[tuple[str, str, str, str]]) -> int:
    # Nobody is asked a prompt twice here: of two responses, the rarer choice is coupled wholly.
    counts = Counter((prompt, best) for _, _, prompt, best in chosen)
    prompts = {prompt for prompt, _ in counts}
    return sum(
        min(counts[prompt, one], counts[prompt, other])
        for prompt in prompts
        for one, other in combinations(LETTERS, 2)
    )


@pytest.mark.parametrize("name", NAMES)
def test_rows_and_couples_are_those_of_a_brute_force(name: str, folders: dict[str, Path]) -> None:
    everything = load(name, folders[name])
    written = choices(name)
    expected = {
        (who, prompt, f"A {TASTES[LETTERS.index(best)]} text that replies to {prompt}",
         f"A {TASTES[LETTERS.index(other)]} text that replies to {prompt}")
        for _, who, prompt, best in written
        for other in LETTERS
        if other != best
    }  # fmt: skip
    read = [(pair.user_id, pair.text, pair.chosen, pair.rejected) for pair in everything.pairs]
    assert len(read) == len(expected) == 3 * len(written)
    assert set(read) == expected
    assert not everything.bad_rows
    splits: dict[str, set[str | None]] = {}
    for pair in everything.rows:
        splits.setdefault(pair.text, set()).add(pair.split)
    assert all(len(split) == 1 for split in splits.values())
    adapt = sum(pair.split == "adapt" for pair in everything.rows) / len(read)
    assert 0.3 < adapt < 0.7
    asked = {prompt for prompt, split in splits.items() if split == {"test"}}
    test = load(name, folders[name], None)
    assert len(test.rows) == 3 * sum(prompt in asked for _, _, prompt, _ in written)
    assert len(test.rows) + len(test.history) == len(everything.rows)
    couples = load(name, folders[name], None, mirrored="only")
    assert len(couples.couples) == most_couples(c for c in written if c[2] in asked) > 60
    assert len(couples.rows) == 2 * len(couples.couples)
    every = load(name, folders[name], mirrored="only")
    assert len(every.couples) == most_couples(written)


@pytest.mark.parametrize("name", NAMES)
def test_who_reads_the_planted_word_is_right_with_own_posts_alone(
    name: str, folders: dict[str, Path]
) -> None:
    couples = load(name, folders[name], None, mirrored="only")

    def accuracy(scorer: Any, context: str) -> float:
        run = evaluate(couples, scorer, context, root=None, name="taste")
        return float(run.summary.accuracy.value)

    assert accuracy(TasteReader(), "profile:3?order=random") >= 0.85
    assert abs(accuracy(TasteReader(), "stranger:3?order=random") - 0.5) <= 0.06
    assert accuracy("longest", "none") == 0.5


def test_a_row_of_community_alignment_whole(tmp_path: Path) -> None:
    lines = [
        row("7", "ann", f"Tea?{END}", "b", first_turn_feedback=f"It is short.{END}"),
        row("8", "ann", "Milk?", "a", first_turn_feedback="Dull otherwise."),
        row("9", "bob", "Tea?", "c", first_turn_feedback="Bob's."),
    ]  # fmt: skip
    rows = of_csv(tmp_path, lines).pairs
    assert " ".join(pair.id for pair in rows) == "7-1 7-3 7-4 8-2 8-3 8-4 9-1 9-2 9-4"
    first = rows[0]
    assert (first.text, first.user_id, first.subset) == ("Tea?", "ann", "en")
    assert first.gold.narrative == "It is short."
    assert [(post.id, post.text) for post in first.profile] == [("8", "Dull otherwise.")]
    assert rows[3].profile[0].text == "It is short."
    assert not rows[6].profile
    assert dict(first.traits) == {
        "age": "18-34", "gender": "female", "education": "college", "political": "left",
        "country": "india",
    }  # fmt: skip
    assert "<|" not in "".join(f"{pair.text}{pair.chosen}{pair.rejected}" for pair in rows)


def test_a_row_of_prism_whole(tmp_path: Path) -> None:
    lines = [conversation("c1", "ann", "Tea?", "b", generated_datetime="2023-12-01 10:00:00")]
    lines[0]["conversation_history"][4]["score"] = 100  # the chosen one has 80
    rows = of_prism(tmp_path, lines, person("ann", "vivid"), person("nobody", "sober")).pairs
    assert [(pair.id, pair.gold.ratings) for pair in rows] == [
        ("c1-1", (80, 10)), ("c1-3", (80, 30)), ("c1-4", (80, 100)),
    ]  # fmt: skip
    assert rows[0].gold.rating_scale == (1, 100)
    assert rows[0].date == "2023-12-01 10:00:00"
    assert [post.id for post in rows[0].profile] == ["self_description", "system_string"]
    assert dict(rows[0].traits) == {
        "age": "25-34 years old", "gender": "Female", "education": "Some University",
        "residence": "Peru",
    }  # fmt: skip


def test_responses_of_equal_score_are_a_tie(tmp_path: Path) -> None:
    lines = [conversation("c1", "ann", "Tea?", "b"), conversation("c2", "ann", "Milk?", "b")]
    lines[0]["conversation_history"][3]["score"] = 80  # as the chosen one
    for answer in lines[1]["conversation_history"][1:5]:
        answer["score"] = None
    loaded = of_prism(tmp_path, lines)
    assert [pair.id for pair in loaded.rows] == ["c1-1", "c1-4", "c2-1", "c2-3", "c2-4"]
    assert loaded.ties == 1
    assert [(pair.id, pair.gold.ratings) for pair in loaded.undecided] == [("c1-3", (80, 80))]


def reasons(loaded: Dataset) -> list[tuple[int | None, str | None, str]]:
    return [(bad.line, bad.field, bad.problem) for bad in loaded.bad_rows]


def test_bad_lines_of_community_alignment_are_left_out_and_listed(tmp_path: Path) -> None:
    same = "A brief text that replies to Tea?"
    loaded = of_csv(
        tmp_path,
        [
            row("1", "ann", "Tea?", "a"),
            row("2", "ann", "Tea?", "a", first_turn_preferred_response=""),
            row("3", "ann", "Tea?", "a", first_turn_preferred_response="tie"),
            row("4", "ann", "Tea?", "a", first_turn_response_a="<|end_of_text|>"),
            row("5", "ann", "Tea?", "a", first_turn_response_d=""),
            row("6", "ann", "Tea?", "a", first_turn_response_c=f" {same}\r\n"),
            row("7", "ann", "Tea?", "d", first_turn_response_c=same),
            row("1", "ann", "Tea?", "a"),
            row("", "ann", "Tea?", "a"),
            row("9", "ann", "<|end_of_text|>", "a"),
        ],
    )
    kept = Counter(pair.id.split("-")[0] for pair in loaded.rows)
    assert kept == {"1": 3, "5": 2, "6": 2, "7": 2}
    preferred, response = "first_turn_preferred_response", "first_turn_response_"
    assert [bad[1:] for bad in reasons(loaded)] == [
        (preferred, "missing"),
        (preferred, "'tie' is none of response_a to response_d"),
        (None, "the conversation '1' is there twice"),
        ("conversation_id", "missing"),
        (f"{response}a", "the chosen response is empty or the only one"),
        (f"{response}d", "missing"),
        (f"{response}c", "the text of another response"),
        (f"{response}c", "the text of another response"),
        ("question", "expected text, got an empty string"),
        ("question", "expected text, got an empty string"),
        ("question", "expected text, got an empty string"),
    ]
    assert all(str(tmp_path / CSV) == bad.file for bad in loaded.bad_rows)


def changed(line: dict[str, Any], k: int, **turn: Any) -> dict[str, Any]:
    history = [dict(each) for each in line["conversation_history"]]
    history[k] |= turn
    return line | {"conversation_history": history}


def test_bad_lines_of_prism_are_left_out_and_listed(tmp_path: Path) -> None:
    def tea(name: str) -> dict[str, Any]:
        return conversation(name, "ann", "Tea?", "a")

    lines: list[Any] = [
        tea("1"),
        changed(tea("2"), 1, if_chosen=False),
        changed(tea("3"), 2, if_chosen=True),
        changed(tea("4"), 0, content="EMPTY STRING"),
        changed(tea("5"), 2, content="EMPTY STRING"),
        changed(tea("6"), 2, score="high"),
        tea("7") | {"user_id": "cy"},
        tea("8") | {"conversation_history": tea("8")["conversation_history"][:2]},
        tea("9") | {"conversation_history": "none"},
        tea("10") | {"user_id": ["ann"]},
        ["a list"],
        changed(tea("12"), 3, score=None),
    ]
    loaded = of_prism(tmp_path, lines)
    kept = Counter(pair.id.split("-")[0] for pair in loaded.rows)
    assert kept == {"1": 3, "5": 2, "6": 2, "12": 3}
    history = "conversation_history"
    assert sorted(reasons(loaded), key=str) == sorted(
        [
            (2, history, "turn 0: 1 prompts, 0 choices"),
            (3, history, "turn 0: 1 prompts, 2 choices"),
            (4, history, "turn 0: 0 prompts, 1 choices"),
            (5, f"{history}[2]", "missing"),
            (6, "rejected_rating", "expected a finite number, got 'high'"),
            (7, "user_id", "'cy' is not in survey.jsonl"),
            (8, f"{history}[1]", "the chosen response is empty or the only one"),
            (9, history, "expected a list of objects"),
            (10, "user_id", "expected text or a whole number, got list"),
            (11, None, "expected an object"),
        ],
        key=str,
    )


@pytest.mark.parametrize(
    ("name", "file"), [(NAMES[0], CSV), ("prism", CONVERSATIONS), ("prism", SURVEY)]
)
def test_a_missing_file_is_named(
    name: str, file: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    for path in folders[name].iterdir():
        if path.name != file:
            (tmp_path / path.name).symlink_to(path)
    with pytest.raises(BenchmarkError, match=f"--source .*: no file .*/{file}$"):
        load(name, tmp_path)


@pytest.mark.parametrize("column", list(row("1", "ann", "Tea?", "a")))
def test_a_missing_column_of_the_csv_is_named(column: str, tmp_path: Path) -> None:
    line = row("1", "ann", "Tea?", "a")
    del line[column]
    with pytest.raises(DataError, match=f"{CSV}: `{column}`: no such column$"):
        of_csv(tmp_path, [line])


def test_a_missing_column_of_prism_is_named(tmp_path: Path) -> None:
    line, ann = conversation("c1", "ann", "Tea?", "a"), person("ann", "vivid")
    for column in ("self_description", "system_string", "age", "gender", "education", "location"):
        with pytest.raises(DataError, match=f"{SURVEY}: `{column}`: no such column$"):
            of_prism(tmp_path, [line], {name: ann[name] for name in ann if name != column})
    del line["conversation_history"]
    with pytest.raises(DataError, match=f"{CONVERSATIONS}: `conversation_history`: no such column"):
        of_prism(tmp_path, [line])


def test_a_survey_that_names_somebody_twice_or_nobody_stops_the_load(tmp_path: Path) -> None:
    lines = [conversation("c1", "ann", "Tea?", "a")]
    ann, nobody = person("ann", "vivid"), person("", "brief") | {"user_id": None}
    with pytest.raises(DataError, match=f"{SURVEY}:2: `user_id`: 'ann' is there twice"):
        of_prism(tmp_path, lines, ann, person("ann", "brief"))
    with pytest.raises(DataError, match=f"{SURVEY}:2: `user_id`: missing"):
        of_prism(tmp_path, lines, ann, nobody)


@pytest.mark.parametrize("name", NAMES)
def test_what_cannot_be_told_of_a_declared_layout_is_refused(
    name: str, folders: dict[str, Path]
) -> None:
    options = LoadOptions(source=folders[name])
    for refused in (
        replace(options, columns={"chosen": "better"}),
        replace(options, layout=LayoutOptions(pairs="adjacent")),
    ):
        with pytest.raises(BenchmarkError, match="leave out --map, --layout"):
            find_benchmark(name).load(refused)
    with pytest.raises(BenchmarkError, match="is a copy: it takes no --revision"):
        find_benchmark(name).load(replace(options, revision="v1"))


def test_a_file_without_a_usable_line_says_so(tmp_path: Path) -> None:
    (tmp_path / CSV).write_text(",".join(row("1", "ann", "Tea?", "a")) + "\n", encoding="utf-8")
    with pytest.raises(DataError, match="holds no usable row"):
        load(NAMES[0], tmp_path)
    with pytest.raises(DataError, match="holds no usable row"):
        of_prism(tmp_path, [])


def test_crlf_and_other_scripts_read_alike(tmp_path: Path) -> None:
    told = {"first_turn_feedback": "Größe\nzählt"}
    lines = [row("1", "änn", "चाय?", "a", **told), row("2", "änn", "茶?", "b")]
    hashes = set()
    for newline in ("\n", "\r\n"):
        loaded = load(NAMES[0], write_csv(tmp_path, lines, newline))
        assert loaded.pairs[3].profile[0].text == "Größe\nzählt"
        hashes.add(loaded.content_hash)
    assert len(hashes) == 1


def test_a_person_asked_twice_is_shown_nothing_of_that_prompt(tmp_path: Path) -> None:
    lines = [
        row("1", "ann", "Tea?", "a", first_turn_feedback="First."),
        row("2", "ann", " Tea?", "b", first_turn_feedback="Second."),
        row("3", "ann", "Milk?", "b", first_turn_feedback="Third."),
    ]
    loaded = of_csv(tmp_path, lines)
    shown = {pair.id: [post.text for post in pair.profile] for pair in loaded.rows}
    assert shown["1-2"] == shown["2-1"] == ["Third."]
    assert shown["3-1"] == ["First.", "Second."]
    assert len({pair.split for pair in loaded.rows[:6]}) == 1


def test_posts_that_quote_their_row_are_left_out_and_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="palate")
    lines = [
        row("1", "ann", "Tea?", "a", first_turn_feedback="Short."),
        row("2", "ann", "Milk?", "a", first_turn_feedback="You asked TEA? too."),
        row("3", "ann", "Rum?", "a", first_turn_feedback=" Short. "),
    ]
    loaded = of_csv(tmp_path, lines)
    shown = {pair.id: [post.id for post in pair.profile] for pair in loaded.rows}
    assert shown["1-2"] == []
    assert shown["2-2"] == ["1", "3"]
    assert shown["3-2"] == ["2"]
    assert "3 posts tell of another choice: left out there" in caplog.text


SCRIPT = """
import json, sys
from palate.benchmarks import load_benchmark

pairs = load_benchmark(json.loads(sys.argv[1])[0], split="all")
print(json.dumps({"revision": pairs.revision, "hash": pairs.content_hash}))
"""


@pytest.mark.parametrize(
    ("name", "repository"),
    [
        (NAMES[0], "facebook/community-alignment-dataset"),
        ("prism", "HannahRoseKirk/prism-alignment"),
    ],
)
def test_the_hub_is_read_at_the_commit_it_names(
    name: str, repository: str, folders: dict[str, Path], tmp_path: Path
) -> None:
    pytest.importorskip("huggingface_hub")
    with serving(folders[name], repository) as hub:
        (read,) = read_by(SCRIPT, hub.url, tmp_path, name)
    assert read == {"revision": COMMIT, "hash": load(name, folders[name]).content_hash}


people = st.sampled_from(["ann", "bob", "cy"])
said = st.sampled_from(["", "Short.", "short. ", "Long one.", "Calm", "of Ann", "b"])
asked = st.sampled_from(["Tea?", "tea?", "Milk?", " Tea?"])
ballots = st.lists(
    st.tuples(people, asked, st.sampled_from(LETTERS), said), min_size=1, max_size=12
)


@settings(max_examples=40, deadline=None)
@given(ballots, st.randoms(use_true_random=False), st.booleans())
def test_no_profile_holds_the_rows_feedback_or_anothers_text(
    tmp_path_factory: pytest.TempPathFactory,
    made: list[tuple[str, str, str, str]],
    draw: random.Random,
    twice: bool,
) -> None:
    folder = tmp_path_factory.mktemp("made")
    lines = [
        row(str(k), who, prompt, best, first_turn_feedback=text and f"{text}{END_OF[who]}")
        for k, (who, prompt, best, text) in enumerate(made)
    ]
    if twice:  # the same conversation with another choice
        lines.append(row("0", "dot", "Tea?", "d"))
    loaded = of_csv(folder, lines)
    wrote = {
        (line["annotator_id"], line["conversation_id"]): line["first_turn_feedback"]
        for line in lines
        if line["first_turn_feedback"].strip()
    }
    for pair in loaded.pairs:
        own = pair.gold.narrative or ""
        for post in pair.profile:
            assert post.id != pair.id.split("-")[0]
            assert " ".join(post.text.split()).lower() != " ".join(own.split()).lower()
            assert wrote[pair.user_id, post.id] == post.text
    draw.shuffle(lines)
    again = of_csv(folder, lines)
    assert again.content_hash == loaded.content_hash
    assert [pair.id for pair in again.rows] == [pair.id for pair in loaded.rows]
    assert len(again.bad_rows) == len(loaded.bad_rows)


END_OF = {"ann": " (a)", "bob": " (b)", "cy": " (c)"}


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(people, st.sampled_from(LETTERS)), min_size=1, max_size=8), st.randoms())
def test_prisms_lines_may_come_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[str, str]], draw: random.Random
) -> None:
    folder = tmp_path_factory.mktemp("made")
    lines = [
        conversation(f"c{k}", who, f"Tea {k % 3}?", best) for k, (who, best) in enumerate(made)
    ]
    survey = [
        person(name, taste) for name, taste in zip(("ann", "bob", "cy"), TASTES, strict=False)
    ]
    loaded = of_prism(folder, lines, *survey)
    for pair in loaded.rows:
        assert all(pair.user_id in post.text for post in pair.profile)
    draw.shuffle(lines)
    draw.shuffle(survey)
    assert of_prism(folder, lines, *survey).content_hash == loaded.content_hash
