"""Layouts: every public form reads back to the same rows of the contract."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palate.benchmarks import Dataset, LoadOptions, find_benchmark
from palate.data import LayoutOptions, parse_columns, parse_votes
from palate.data.layouts import LAYOUTS
from palate.errors import DataError, UsageError
from row_files import chosen, load, write

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

import layouts

CASES = list(layouts.cases())


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_layout_format_and_type_reads_as_expected(case, tmp_path):
    read = layouts.read(case, tmp_path)
    if isinstance(case.expected, str):
        assert isinstance(read, str), read
        assert case.expected in read
        assert "\n" not in read
    else:
        assert read == case.expected


def test_there_are_forty_files_or_more_and_every_layout_is_among_them():
    read = {case.expected.layout for case in CASES if not isinstance(case.expected, str)}
    assert len(CASES) >= 40
    assert read >= {"contract", *LAYOUTS}


# Texts that no transcript, list or column of JSON could be taken for.
text = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Zl", "Zp", "Zs"],
                  exclude_characters="[]{}:"),
    min_size=1, max_size=12,
)  # fmt: skip
vote = st.tuples(st.sampled_from(["ann", "bob", "cy"]), text, st.lists(
    text, min_size=2, max_size=2, unique_by=lambda t: t.casefold()), st.booleans())  # fmt: skip


def one_hot(row, first, second):
    flags = {"winner_model_a": 0, "winner_model_b": 0, "winner_tie": int(row["tie"])}
    if not row["tie"]:
        flags["winner_model_a" if first == row["chosen"] else "winner_model_b"] = 1
    return flags


def sides(row, swap):
    both = (row["chosen"], row["rejected"])
    return both[::-1] if swap and not row["tie"] else both


def voted(name, a, b, tie, value):
    def write(row, swap):
        first, second = sides(row, swap)
        side = tie if row["tie"] else a if first == row["chosen"] else b
        return {"id": row["id"], "user": row["user_id"], "prompt": row["question"],
                "response_a": first, "response_b": second, name: value(side)}  # fmt: skip

    return write


def messages(row, answer):
    return [{"role": "user", "content": row["question"]}, {"role": "assistant", "content": answer}]


def preferred(make):
    def write(row, swap):
        del swap
        made = {name: make(row, row[name]) for name in ("chosen", "rejected")}
        return {"id": row["id"], "user_id": row["user_id"], "tie": row["tie"], **made}

    return write


def transcript(row, answer):
    return f"\n\nHuman: {row['question']}\n\nAssistant: {answer}"


def trl(row, swap):
    del swap
    names = {"prompt": row["question"], "chosen": row["chosen"], "rejected": row["rejected"]}
    return {"id": row["id"], "annotator": row["user_id"], "tie": row["tie"], **names}


def rated(row, swap):
    first, second = sides(row, swap)
    scores = [1, 1] if row["tie"] else [2, 1] if first == row["chosen"] else [1, 2]
    return {"user": row["user_id"], "prompt": row["question"], "responses": [first, second],
            "scores": scores}  # fmt: skip


def arena(row, swap):
    first, second = sides(row, swap)
    return {"id": row["id"], "judge": row["user_id"], **one_hot(row, first, second),
            "prompt": json.dumps([row["question"]]), "response_a": json.dumps([first]),
            "response_b": json.dumps([second])}  # fmt: skip


WRITERS = {
    "TRL": trl,
    "messages": preferred(messages),
    "HH": preferred(transcript),
    "letters": voted("winner", "A", "B", "tie", str),
    "numbers": voted("overall_preference", -1, 1, 0, int),
    "text of floats": voted("label", 1, 2, 0, lambda side: f"{side}.0"),
    "arena": arena,
    "rated": rated,
}


@pytest.mark.parametrize("name", WRITERS)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(votes=st.lists(st.tuples(vote, st.booleans()), min_size=1, max_size=5))
def test_rows_written_in_any_layout_read_back_the_same(name, votes, tmp_path):
    rows = [
        {"id": str(k), "user_id": user, "question": question, "chosen": responses[0],
         "rejected": responses[1], "tie": tie}
        for k, ((user, question, responses, tie), _) in enumerate(votes, 1)
    ]  # fmt: skip
    lines = [WRITERS[name](row, swap) for row, (_, swap) in zip(rows, votes, strict=True)]
    told = ["1=first", "2=second", "0=tie"] if name == "text of floats" else []
    read = load(tmp_path / "file.jsonl", lines, votes=told, skip=False).rows
    expected = Dataset.from_rows("file", rows).rows
    for mine, theirs in zip(read, expected, strict=True):
        both = (mine.chosen, mine.rejected), (theirs.chosen, theirs.rejected)
        assert both[0] == both[1] or (theirs.tie and set(both[0]) == set(both[1]))
        assert (mine.user_id, mine.text, mine.tie) == (theirs.user_id, theirs.text, theirs.tie)


def test_rows_of_the_contract_are_read_as_they_lie(tmp_path):
    """Not a byte moves: also beside columns that a layout knows."""
    row = {"id": "1", "question": "Tea?", "chosen": "Green.", "rejected": "Black.",
           "winner": "a", "response_a": "Green.", "response_b": "Black.", "x": None}  # fmt: skip
    loaded = load(tmp_path / "file.jsonl", [row])
    assert loaded.reading is None
    assert loaded.rows == Dataset.from_rows("file", [row]).rows
    assert loaded.unknown_columns == ("response_a", "response_b", "winner")


VOTES = layouts.vote("winner", "a", "b", "tie")
ROWS_OF_ONE = [{"id": 7, "question": "Tea?", "chosen": "Green.", "rejected": "Black."}]


def with_posts(folder, *posts, rows=VOTES, **options):
    """Read rows with these posts of a second file: (user, text), or with a date."""
    named = [dict(zip(("user", "text", "date"), post, strict=False)) for post in posts]
    file = write(folder / "posts.jsonl", named)
    return load(folder / "file.jsonl", rows, posts=file, **options).rows


def test_a_layout_is_named_aloud(tmp_path, caplog):
    caplog.set_level("INFO", logger="palate")
    load(tmp_path / "file.jsonl", layouts.vote("winner", "A", "B", "tie"))
    assert any(
        "layout vote: question = prompt, responses = response_a, response_b, choice = winner "
        "(a is first, b is second, tie is tie), user_id = annotator" in line
        for line in caplog.messages
    )
    assert any("no id: each is named by its content" in line for line in caplog.messages)


def test_an_unknown_vote_says_how_often_and_where_first(tmp_path):
    rows = [*layouts.vote("winner", "a", "b", "tie")]
    rows += [{**rows[0], "winner": "skip"}] * 3
    with pytest.raises(DataError, match=r"file.jsonl:4.*'skip' is not known.*\(3 rows\)"):
        load(tmp_path / "file.jsonl", rows, skip=False)
    loaded = load(tmp_path / "file.jsonl", rows)
    assert (len(loaded.rows), [error.line for error in loaded.bad_rows]) == (3, [4, 5, 6])


def test_posts_of_a_second_file_become_profiles(tmp_path):
    rows = with_posts(tmp_path, ("ann", "Mild.", "2026-02-01"), ("ann", "Early.", "2026-01-01"))
    assert [[post.text for post in row.profile] for row in rows] == [
        ["Early.", "Mild."], [], ["Early.", "Mild."],
    ]  # fmt: skip


FORMS = "differ in nothing but white space or the form of accents"


@pytest.mark.parametrize(
    ("posts", "rows", "problem"),
    [
        ([("ann", "Mild.", "2/3/2026")], VOTES, "date"),
        ([("an\u0144", "Old."), ("ann\u0301", "Mild.")], VOTES, FORMS),
        ([("ann ", "Mild.")], VOTES, r"row 1 of the data.*write both alike"),
        ([("ane\u0301", "Mild.")], [{**ROWS_OF_ONE[0], "user_id": "an\u00e9"}], FORMS),
    ],
)
@pytest.mark.parametrize("skip", [True, False])
def test_posts_of_a_second_file_are_held_to_the_rules_of_rows(tmp_path, posts, rows, problem, skip):
    with pytest.raises(DataError, match=problem):
        with_posts(tmp_path, *posts, rows=rows, skip=skip)


@pytest.mark.parametrize("user", [float("nan"), None, ""])
def test_posts_of_nobody_are_refused_and_rows_without_a_user_go_by_their_id(tmp_path, user):
    known = ("7", "Mild.")
    with pytest.raises(DataError, match="missing"):
        with_posts(tmp_path, known, (user, "Whose?"), rows=ROWS_OF_ONE)
    (row,) = with_posts(tmp_path, known, ("None", "Other."), rows=ROWS_OF_ONE)
    assert [post.text for post in row.profile] == ["Mild."] and row.user_id == "7"


def test_epochs_of_a_second_file_are_instants(tmp_path):
    days = [("Late.", 1767225600), ("Early.", "2024-01-01T00:00:00+02:00"), ("Mid.", 1735689600000)]
    row = with_posts(tmp_path, *(("ann", *day) for day in days))[0]
    assert [post.text for post in row.profile] == ["Early.", "Mid.", "Late."]


def test_a_vote_told_by_hand_wins_over_what_a_number_usually_means(tmp_path):
    votes = ["1=second", "2=first"]
    loaded = load(tmp_path / "file.jsonl", layouts.vote("label", 1, 2, 0), votes=votes)
    assert chosen(loaded)[:2] == [layouts.BLACK, layouts.GREEN]


def test_a_vote_of_another_column_is_mapped(tmp_path):
    rows = [{**row, "label": 7} for row in layouts.vote("decision", "a", "b", "tie")]
    with pytest.raises(UsageError, match="label is 7"):
        load(tmp_path / "file.jsonl", rows)
    with pytest.raises(UsageError, match="winner"):
        parse_columns(["nothing=decision"])
    assert len(load(tmp_path / "file.jsonl", rows, "winner=decision").rows) == 3


def test_the_flags_of_a_refusal_read_the_file(tmp_path):
    """What a line says to add, copied, reads what it refused: each way that it names."""
    tried = 0
    for k, case in enumerate(layouts.cases()):
        folder = tmp_path / str(k)
        folder.mkdir()
        outcome = layouts.read(case, folder)
        if not isinstance(outcome, str) or not ("could each be" in outcome or "say wh" in outcome):
            continue
        ways = re.findall(r"--(map|vote) ([^ ;,]+)", outcome)
        alternatives = re.split(r";? or |, ", outcome)
        for alternative in alternatives:
            flags = re.findall(r"--(map|vote) ([^ ;,]+)", alternative)
            if not flags:
                continue
            given = dict(case.options)
            given["columns"] = [*given.get("columns", []), *(v for n, v in flags if n == "map")]
            given["votes"] = {**given.get("votes", {}), **parse_votes(
                v for n, v in flags if n == "vote")}  # fmt: skip
            (folder / alternative[-9:].replace("/", "")).mkdir(exist_ok=True)
            read = layouts.read(case._replace(options=given), folder / alternative[-9:])
            assert isinstance(read, layouts.Read), (case.name, alternative, read)
            tried += 1
        assert ways or "--posts-map" in outcome or "--layout" in outcome, outcome
    assert tried >= 30


def test_a_bench_of_a_named_layout_by_its_options(tmp_path):
    file = write(tmp_path / "file.jsonl", VOTES)
    options = LoadOptions(layout=LayoutOptions("vote"))
    assert find_benchmark(str(file)).load(options).reading.startswith("layout vote")
