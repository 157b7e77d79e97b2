"""Layouts: every public form reads back to the same rows of the contract."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palate.benchmarks import Dataset, LoadOptions, find_benchmark
from palate.data import LayoutOptions, load_rows, parse_columns, parse_votes
from palate.errors import DataError, UsageError

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
    assert read >= {"contract", *layouts_known()}


def layouts_known():
    from palate.data import LAYOUTS

    return set(LAYOUTS)


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
    "numbers": voted("preference", -1, 1, 0, int),
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
    file = tmp_path / "file.jsonl"
    lines = [WRITERS[name](row, swap) for row, (_, swap) in zip(rows, votes, strict=True)]
    if name == "numbers" and not any(line["preference"] < 0 for line in lines):
        return  # 0 and 1 alone may mean either, and are refused
    if name == "text of floats" and not any(line["label"] == "2.0" for line in lines):
        return
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    read = load_rows(file).rows
    expected = Dataset.from_rows("file", rows).rows
    for mine, theirs in zip(read, expected, strict=True):
        both = (mine.chosen, mine.rejected), (theirs.chosen, theirs.rejected)
        assert both[0] == both[1] or (theirs.tie and set(both[0]) == set(both[1]))
        assert (mine.user_id, mine.text, mine.tie) == (theirs.user_id, theirs.text, theirs.tie)


def test_rows_of_the_contract_are_read_as_they_lie(tmp_path):
    """Not a byte moves: also beside columns that a layout knows."""
    file = tmp_path / "file.jsonl"
    row = {"id": "1", "question": "Tea?", "chosen": "Green.", "rejected": "Black.",
           "winner": "a", "response_a": "Green.", "response_b": "Black.", "x": None}  # fmt: skip
    file.write_text(json.dumps(row))
    loaded = load_rows(file)
    assert loaded.reading is None
    assert loaded.rows == Dataset.from_rows("file", [row]).rows
    assert loaded.unknown_columns == ("response_a", "response_b", "winner")


def write(folder, rows):
    file = folder / "file.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file


def test_a_layout_is_named_aloud(tmp_path, caplog):
    caplog.set_level("INFO", logger="palate")
    load_rows(write(tmp_path, layouts.vote("winner", "A", "B", "tie")))
    assert any(
        "layout vote: question = prompt, responses = response_a, response_b, choice = winner "
        "(a is first, b is second, tie is tie), user_id = annotator" in line
        for line in caplog.messages
    )
    assert any("no id: each is named by its number" in line for line in caplog.messages)


def test_an_unknown_vote_says_how_often_and_where_first(tmp_path):
    rows = [*layouts.vote("winner", "a", "b", "tie")]
    rows += [{**rows[0], "winner": "skip"}] * 3
    with pytest.raises(DataError, match=r"file.jsonl:4.*'skip' is not known.*\(3 rows\)"):
        load_rows(write(tmp_path, rows))
    loaded = load_rows(tmp_path / "file.jsonl", skip_bad_rows=True)
    assert (len(loaded.rows), [error.line for error in loaded.bad_rows]) == (3, [4, 5, 6])


def test_ratings_of_rated_responses_are_kept(tmp_path):
    loaded = load_rows(write(tmp_path, [layouts.scored("ann", 9, 5)]))
    assert [row.gold.ratings for row in loaded.rows] == [(9, 5), (9, 1), (5, 1)]


def test_a_side_in_brackets_is_told_from_nine_rows_of_ten_on(tmp_path, caplog):
    rows = [
        {"id": str(k), "question": f"Tea {k}?", "chosen": "['Green.']" if k else "Green.",
         "rejected": "Black."} for k in range(10)
    ]  # fmt: skip
    load_rows(write(tmp_path, rows))
    assert any("in 9 of 10 rows one response alone stands in brackets" in m
               for m in caplog.messages)  # fmt: skip
    caplog.clear()
    load_rows(write(tmp_path, [*rows[:9], {**rows[9], "chosen": "Green."}]))
    assert not any("brackets" in message for message in caplog.messages)


def test_posts_of_a_second_file_become_profiles(tmp_path):
    posts = tmp_path / "posts.jsonl"
    posts.write_text(
        json.dumps({"user": "ann", "text": "Mild.", "date": "2026-02-01"}) + "\n"
        + json.dumps({"user": "ann", "text": "Early.", "date": "2026-01-01"}) + "\n"
    )  # fmt: skip
    file = write(tmp_path, layouts.vote("winner", "a", "b", "tie"))
    rows = load_rows(file, layout=LayoutOptions(posts=posts)).rows
    assert [[post.text for post in row.profile] for row in rows] == [
        ["Early.", "Mild."], [], ["Early.", "Mild."],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("post", "problem"),
    [
        ({"user": "ann", "text": "Mild.", "date": "2/3/2026"}, "date"),
        ({"user": "ann\u0301", "text": "Mild."}, "nothing but white space or the form of accents"),
    ],
)
def test_posts_of_a_second_file_are_held_to_the_rules_of_rows(tmp_path, post, problem):
    posts = tmp_path / "posts.jsonl"
    lines = [json.dumps(row) + "\n" for row in ({"user": "an\u0144", "text": "Old."}, post)]
    posts.write_text("".join(lines))
    file = write(tmp_path, layouts.vote("winner", "a", "b", "tie"))
    with pytest.raises(DataError, match=problem):
        load_rows(file, layout=LayoutOptions(posts=posts))


def test_a_user_of_the_posts_is_spelt_as_in_the_rows(tmp_path):
    posts = tmp_path / "posts.jsonl"
    posts.write_text(json.dumps({"user": "ann ", "text": "Mild."}) + "\n")
    file = write(tmp_path, layouts.vote("winner", "a", "b", "tie"))
    with pytest.raises(DataError, match=r"row 1 of the data.*write both alike"):
        load_rows(file, layout=LayoutOptions(posts=posts))


def test_a_user_whose_accent_is_written_otherwise_than_in_the_rows_stops_the_load(tmp_path):
    posts = tmp_path / "posts.jsonl"
    posts.write_text(json.dumps({"user": "ane\u0301", "text": "Mild."}) + "\n")
    file = write(tmp_path, [dict(row, user_id="an\u00e9") for row in ROWS_OF_ONE])
    with pytest.raises(DataError, match="differ in nothing but white space or the form of accents"):
        load_rows(file, layout=LayoutOptions(posts=posts), skip_bad_rows=True)


@pytest.mark.parametrize("user", [float("nan"), None, ""])
def test_posts_of_nobody_are_refused_and_rows_without_a_user_go_by_their_id(tmp_path, user):
    posts = tmp_path / "posts.jsonl"
    known = {"user": "7", "text": "Mild."}
    posts.write_text(json.dumps(known) + "\n" + json.dumps({"user": user, "text": "Whose?"}))
    file = write(tmp_path, ROWS_OF_ONE)
    with pytest.raises(DataError, match="missing"):
        load_rows(file, layout=LayoutOptions(posts=posts))
    posts.write_text(
        "".join(json.dumps(k) + "\n" for k in (known, {"user": "None", "text": "Other."}))
    )
    (row,) = load_rows(file, layout=LayoutOptions(posts=posts)).rows
    assert [post.text for post in row.profile] == ["Mild."] and row.user_id == "7"


ROWS_OF_ONE = [{"id": 7, "question": "Tea?", "chosen": "Green.", "rejected": "Black."}]


def test_epochs_of_a_second_file_are_instants(tmp_path):
    posts = tmp_path / "posts.jsonl"
    days = [("Late.", 1767225600), ("Early.", "2024-01-01T00:00:00+02:00"), ("Mid.", 1735689600000)]
    posts.write_text(
        "".join(json.dumps({"user": "ann", "text": t, "date": d}) + "\n" for t, d in days)
    )
    file = write(tmp_path, layouts.vote("winner", "a", "b", "tie"))
    row = load_rows(file, layout=LayoutOptions(posts=posts)).rows[0]
    assert [post.text for post in row.profile] == ["Early.", "Mid.", "Late."]


def test_a_vote_told_by_hand_wins_over_what_a_number_usually_means(tmp_path):
    file = write(tmp_path, layouts.vote("label", 1, 2, 0))
    rows = load_rows(file, layout=LayoutOptions(votes=parse_votes(["1=second", "2=first"]))).rows
    assert [row.chosen for row in rows[:2]] == [layouts.BLACK, layouts.GREEN]


def test_a_vote_of_another_column_is_mapped(tmp_path):
    rows = [{**row, "label": 7} for row in layouts.vote("decision", "a", "b", "tie")]
    columns = parse_columns(["winner=decision"])
    with pytest.raises(UsageError, match="label is 7"):
        load_rows(write(tmp_path, rows))
    with pytest.raises(UsageError, match="winner"):
        parse_columns(["nothing=decision"])
    assert len(load_rows(tmp_path / "file.jsonl", columns=columns).rows) == 3


def test_a_bench_of_a_named_layout_by_its_options(tmp_path):
    file = write(tmp_path, layouts.vote("winner", "a", "b", "tie"))
    options = LoadOptions(layout=LayoutOptions("vote"))
    assert find_benchmark(str(file)).load(options).reading.startswith("layout vote")
