"""What public files of crowds, tools, surveys and spreadsheets showed: read, refused or said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import row_files
from palate.data import LoadedRows
from palate.errors import DataError, UsageError
from row_files import chosen, said

ROW = {"prompt": "Tea?", "response_a": "Green.", "response_b": "Black.", "winner": "a"}
PAIRS = [{**ROW, "prompt": f"Tea {k}?"} for k in range(4)]


def load(folder: Path, rows: list[dict[str, Any]], *columns: str, **options: Any) -> LoadedRows:
    return row_files.load(folder / "file.jsonl", rows, *columns, **options)


# rows that may not count, and people that nothing reads


@pytest.mark.parametrize(("name", "values", "listed"), [
    ("AssignmentStatus", ["Approved", "Rejected", *["Approved"] * 2], "Approved 3, Rejected 1"),
    ("annotation_done", [1, 0, 1, 1], "1 3, 0 1"),
    ("Finished", [True, True, False, False], "True 2, False 2"),
    ("GOLDEN:result", [None, "left", None, "left"], "left 2, nothing 2"),
    ("status", ["tie", "tie", "unchanged", "swapped"], "tie 2, unchanged 1, swapped 1"),
    ("criterion", ["overall", "brevity"] * 2, "overall 2, brevity 2"),
    ("Question Type", ["which", "which", "why", "which"], "which 3, why 1"),
])  # fmt: skip
def test_a_column_that_may_say_which_rows_count_is_said(tmp_path, name, values, listed):
    rows = [{**row, name: value} for row, value in zip(PAIRS, values, strict=True)]
    line = said(load(tmp_path, rows))
    assert f"`{name}` tells rows apart, and every row is read; --map split=" in line
    assert line.endswith(f"({listed})")
    assert len(load(tmp_path, rows, f"split={name}").rows) == 4


@pytest.mark.parametrize(("name", "values"), [
    ("status", ["done"] * 4),
    ("original_rejected", ["Green.", "Black.", "Red.", "White."]),
    ("state", ["OH", "OR", "NY", "CA"]),
    ("strong", ["yes", "no", "yes", "no"]),
])  # fmt: skip
def test_a_column_of_one_value_or_of_texts_is_no_state(tmp_path, name, values):
    rows = [{**row, name: value} for row, value in zip(PAIRS, values, strict=True)]
    assert said(load(tmp_path, rows)) == ""


@pytest.mark.parametrize(
    "name", ["username", "public_username", "Email Address", "coder", "subject"]
)
def test_a_column_that_may_name_who_chose_is_said(tmp_path, name):
    rows = [{**row, name: who} for row, who in zip(PAIRS, "abab", strict=True)]
    loaded = load(tmp_path, rows)
    flag = f"user_id={name}"
    assert f"no column is read as who chose; --map user_id={name!r}".replace("'", "") in said(
        loaded
    ).replace("'", "")
    assert len({row.user_id for row in load(tmp_path, rows, flag).rows}) == 2
    assert said(load(tmp_path, [{**row, "rater": "kim"} for row in rows])) == ""


@pytest.mark.parametrize(("name", "values"), [("annotator_type", "abab"), ("username", "abcd")])
def test_a_kind_of_people_and_a_name_of_each_row_are_not_said(tmp_path, name, values):
    rows = [{**row, name: who} for row, who in zip(PAIRS, values, strict=True)]
    assert said(load(tmp_path, rows)) == ""


# votes as numbers


def worth(*numbers: object) -> list[dict[str, Any]]:
    return [{"prompt": f"Tea {k}?", "response1": "Green.", "response2": "Black.", "worth": number}
            for k, number in enumerate(numbers)]  # fmt: skip


def test_the_sign_of_a_scale_is_told_and_digits_of_columns_say_nothing(tmp_path):
    rows, told = worth(1, 2.0, -1, -0.5, 0, 7), ["+=first", "-=second", "0=tie"]
    with pytest.raises(UsageError, match=r"as --vote -=first --vote 0=tie --vote \+=second; or"):
        load(tmp_path, rows, "winner=worth")
    loaded = load(tmp_path, rows, "winner=worth", votes=told)
    assert chosen(loaded) == ["Green.", "Green.", "Black.", "Black.", "Green.", "Green."]
    assert [row.tie for row in loaded.rows] == [False] * 4 + [True, False]


@pytest.mark.parametrize("told", [["+=first"], ["+=first", "0=tie"], ["2=first", "-=second"]])
def test_a_sign_that_is_not_told_is_asked_for(tmp_path, told):
    with pytest.raises(UsageError, match="say what that means"):
        load(tmp_path, worth(1, 2, -1, 0), "winner=worth", votes=told)


def test_a_named_scale_reads_its_small_numbers_beside_columns_with_digits(tmp_path):
    rows = [{**row, "overall_preference": row.pop("worth")} for row in worth(1, -1, 2, -2, 0, 0.5)]
    loaded = load(tmp_path, rows)
    assert chosen(loaded) == ["Black.", "Green.", "Black.", "Green.", "Green.", "Black."]


def test_a_number_that_nobody_told_is_no_digit_of_a_column(tmp_path):
    rows = [*worth(*[0, 1] * 300), *worth(2)]
    loaded = load(tmp_path, rows, "winner=worth", votes=["0=first", "1=second"])
    assert len(loaded.rows) == 600 and "the vote 2 is not known" in loaded.bad_rows[0].problem


@pytest.mark.parametrize("cells", [("4,5", "10,0"), ("-1,5", "2"), ("0,25", "0.5")])
def test_a_decimal_comma_is_read(tmp_path, cells):
    scores = dict(zip(("score_a", "score_b"), cells, strict=True))
    row = {name: value for name, value in ROW.items() if name != "winner"}
    (read,) = load(tmp_path, [{**row, **scores}]).rows
    assert read.chosen == "Black." and read.gold.ratings[0] > read.gold.ratings[1]
    given = {"question": "Tea?", "chosen": "a", "rejected": "b", "chosen_rating": cells[1]}
    assert load(tmp_path, [given]).rows[0].gold.ratings[0] == read.gold.ratings[0]


@pytest.mark.parametrize("cell", ["1,234", "1.234,5", "4;5"])
def test_a_comma_that_may_be_of_thousands_is_refused(tmp_path, cell):
    row = {name: value for name, value in ROW.items() if name != "winner"}
    with pytest.raises(DataError, match="expected a number"):
        load(tmp_path, [{**row, "score_a": cell, "score_b": 1}])


# what was asked


def test_a_question_of_another_name_is_asked_for(tmp_path):
    replies = [("A short novel.", "A book of poems."), ("Green.", "Black."), ("By the sea.", "Up.")]
    rows = [{"dialogue": f"User: {k}?", "reply_A": a, "reply_B": b, "better": "A"}
            for k, (a, b) in enumerate(replies)]  # fmt: skip
    with pytest.raises(UsageError, match=r"no column of the question.*--map question=dialogue$"):
        load(tmp_path, rows)
    assert len(load(tmp_path, rows, "question=dialogue").rows) == 3
    apart = [{**row, "id": k, "kind": "a b"} for k, row in enumerate(rows)]
    for row in apart:
        del row["dialogue"]
    with pytest.raises(UsageError, match="--map question=kind"):
        load(tmp_path, apart)
    pairs = [{"chosen": a, "rejected": b, "scenario": "In a train."} for a, b in replies]
    with pytest.raises(UsageError, match="--map question=scenario"):
        load(tmp_path, pairs)


def test_an_implicit_question_stays_one_and_few_rows_apart_are_bad(tmp_path):
    rows = [{"chosen": f"The sky {k} is blue.", "rejected": f"The sky {k} is red."} for k in "abc"]
    loaded = load(tmp_path, [*rows, {"chosen": "Yes.", "rejected": "No."}])
    assert len(loaded.rows) == 3 and "no common beginning" in loaded.bad_rows[0].problem


@pytest.mark.parametrize("name", ["image_path", "context", "video_url", "document"])
def test_ratings_of_answers_to_different_things_are_no_pair(tmp_path, name):
    rows = [{"prompt": "What is it?", name: f"{k // 2}", "response": f"It is {k}.", "score": k}
            for k in range(4)]  # fmt: skip
    with pytest.raises(UsageError, match=f"`{name}` differs where the question is the same"):
        load(tmp_path, rows)
    mapped = load(tmp_path, rows, f"input={name}").rows
    assert [row.text for row in mapped] == ["What is it?\n\n0", "What is it?\n\n1"]
    assert len(load(tmp_path, rows, f"extra={name}").rows) == 6


def test_a_question_that_holds_both_responses_is_said(tmp_path):
    texts = ("Green tea, mild.", "Black tea, strong.")
    rows = [{**ROW, "prompt": f"{k}: {texts[0]} or {texts[1]}?", "response_a": texts[0],
             "response_b": texts[1]} for k in range(4)]  # fmt: skip
    assert "in 4 of 4 rows the question holds both responses" in said(load(tmp_path, rows))
    assert said(load(tmp_path, [{**row, "prompt": f"Yes or no, {k}?"} for k, row in
                                enumerate(PAIRS)])) == ""  # fmt: skip


# more than two responses, several lists, other forms of lists


def test_one_of_three_columns_is_chosen_over_both_others(tmp_path):
    three = [{**row, "response_c": "Red.", "winner": side} for row, side in
             zip(PAIRS, ("c", "Response B", "response_a", "d"), strict=True)]  # fmt: skip
    loaded = load(tmp_path, three)
    assert chosen(loaded) == ["Red.", "Red.", "Black.", "Black.", "Green.", "Green."]
    assert "'d' is none of response_a, response_b, response_c" in loaded.bad_rows[0].problem
    with pytest.raises(UsageError, match="preference, label could each be vote"):
        load(tmp_path, [{**row, "preference": "a", "label": "b", "winner": None} for row in three])


def test_all_lists_of_votes_are_read(tmp_path):
    def votes(*pairs: tuple[str, str]) -> list[dict[str, str]]:
        return [{"evaluator": who, "overall_pref": side} for who, side in pairs]

    row = {name: ROW[name] for name in ("prompt", "response_a", "response_b")}
    rows = [{**row, "normal_annotations": votes(("n", "B is slightly better than A")),
             "expert_annotations": votes(("e", "A-is-clearly-better"), ("f", "Tie"))},
            {**row, "prompt": "Why?", "normal_annotations": [], "expert_annotations": []},
            {**row, "prompt": "So?", "normal_annotations": votes(("n", "A is not better")),
             "expert_annotations": []}]  # fmt: skip
    loaded = load(tmp_path, rows)
    assert [row.user_id for row in loaded.rows] == ["n", "e", "f"]
    assert chosen(loaded)[:2] == ["Black.", "Green."] and loaded.rows[2].tie
    assert [error.problem[:13] for error in loaded.bad_rows] == ["holds no vote", "the vote 'A i"]


@pytest.mark.parametrize("mark", ["*", ".", "-", "", None])
def test_no_annotator_is_lost_by_a_mark_for_no_vote(tmp_path, mark):
    row = {name: ROW[name] for name in ("prompt", "response_a", "response_b")}
    rows = [
        {**row, "annotator_1": "a", "annotator_2": "b", "annotator_3": mark},
        {**row, "prompt": "Why?", "annotator_1": mark, "annotator_2": "a", "annotator_3": "b"},
    ]
    assert len(load(tmp_path, rows).rows) == 4
    named = [{**row, "anna": "a", "ben": mark} for row in (row, rows[1])]
    loaded = load(tmp_path, named, "votes=anna,ben")
    assert [row.user_id for row in loaded.rows] == ["anna", "anna"]
    odd = load(tmp_path, [{**rows[0], "annotator_3": "maybe"}, rows[1]])
    assert "the vote 'maybe' is not known" in odd.bad_rows[0].problem and len(odd.rows) == 2


def test_votes_that_are_told_win_over_a_vote(tmp_path):
    rows = [{**row, "anna": "b"} for row in PAIRS]
    assert {*chosen(load(tmp_path, rows))} == {"Green."}
    assert {*chosen(load(tmp_path, rows, "votes=anna"))} == {"Black."}
    with pytest.raises(DataError, match="no row has 'carl'"):
        load(tmp_path, rows, "votes=anna,carl")


def test_an_object_of_lists_is_a_list_of_objects(tmp_path):
    answers = {"text": ["Green.", "Black."], "score": [2, 5], "a_id": ["x", "y"]}
    assert chosen(load(tmp_path, [{"prompt": "Tea?", "answers": answers}])) == ["Black."]
    uneven = {**answers, "score": [2]}
    with pytest.raises(UsageError, match="no layout fits"):
        load(tmp_path, [{"prompt": "Tea?", "answers": uneven}])


def test_a_null_in_a_list_of_answers_is_a_bad_row(tmp_path):
    one = {"winner_model_a": 1, "winner_model_b": 0}
    rows = [{"prompt": '["Tea?"]', "response_a": a, "response_b": '["Black."]', **one}
            for a in ('["Green."]', "[null]")]  # fmt: skip
    loaded = load(tmp_path, rows)
    assert chosen(loaded) == ["Green."]
    assert "expected a text or a conversation" in loaded.bad_rows[0].problem


# names of models and samples, ties, tools' prefixes, refusals


@pytest.mark.parametrize("names", [("model_a_name", "model_b_name"), ("ID1", "ID2"),
                                   ("system_1", "system_2")])  # fmt: skip
def test_a_vote_by_the_name_of_what_was_answered(tmp_path, names):
    pairs = [("x", "y"), ("y", "x"), ("x", "x")]
    rows = [{**row, **dict(zip(names, pair, strict=True)), "winner": "x"}
            for row, pair in zip(PAIRS, pairs, strict=False)]  # fmt: skip
    loaded = load(tmp_path, rows)
    assert chosen(loaded) == ["Green.", "Black."]
    assert "the vote 'x' is not known" in loaded.bad_rows[0].problem


def test_a_missing_vote_is_a_tie_where_the_row_says_so(tmp_path):
    rows = [{**row, "winner": side, "both_equal": equal} for row, side, equal in
            zip(PAIRS, ("a", None, "", "b"), (False, True, False, False), strict=True)]  # fmt: skip
    loaded = load(tmp_path, rows, "tie=both_equal")
    assert [row.tie for row in loaded.rows] == [False, True, False]
    assert "missing" in loaded.bad_rows[0].problem


def test_columns_behind_a_tools_prefix_are_read_by_their_names(tmp_path):
    names = {"prompt": "Input.prompt", "response_a": "Input.response_a",
             "response_b": "Input.response_b", "winner": "Answer.winner"}  # fmt: skip
    rows = [{names[name]: value for name, value in row.items()} for row in PAIRS]
    assert chosen(load(tmp_path, rows)) == ["Green."] * 4
    both = [{**row, "prompt": "Why?"} for row in rows]
    assert {row.text for row in load(tmp_path, both).rows} == {"Why?"}


def test_a_task_that_an_annotator_left_is_counted_and_no_vote(tmp_path):
    rows = [{"text": "Tea?", "options": [{"id": 0, "text": "Green."}, {"id": 1, "text": "Black."}],
             "accept": accept, "answer": answer, "_session_id": "s-ann", "_annotator_id": "ann"}
            for accept, answer in (([1], "accept"), ([0], "reject"), ([], "ignore"))]  # fmt: skip
    loaded = load(tmp_path, rows)
    assert chosen(loaded) == ["Black."] and loaded.rows[0].user_id == "ann"
    assert "1 row left out: its answer is reject" in said(loaded)
    assert "1 row left out: its answer is ignore" in said(loaded)


def test_a_file_of_no_layout_is_told_what_lacks(tmp_path):
    row = {name: value for name, value in ROW.items() if name != "winner"}
    with pytest.raises(UsageError) as refused:
        load(tmp_path, [{**row, "outcome": "a"}])
    assert "no layout fits (vote: no column says which response is better" in str(refused.value)
    assert "the first rows have prompt, response_a, response_b, outcome" in str(refused.value)
    assert len(load(tmp_path, [{**row, "outcome": "a"}], "winner=outcome").rows) == 1
    with pytest.raises(UsageError, match=r"no list of responses.*rated-rows: no column of the sco"):
        load(tmp_path, [{"prompt": "Tea?", "answer": "Green."}])
    with pytest.raises(DataError, match="missing; the row has"):
        load(tmp_path, [row], name="none")


def test_a_second_pair_of_responses_is_left_out_by_the_flags_of_the_refusal(tmp_path):
    rows = [{**row, "output_1": "x", "output_2": "y"} for row in PAIRS]
    with pytest.raises(UsageError, match="--map extra=output_1 --map extra=output_2"):
        load(tmp_path, rows)
    assert len(load(tmp_path, rows, "extra=output_1", "extra=output_2").rows) == 4


def test_numbers_of_label_studio_and_argilla_are_refused_with_flags(tmp_path):
    row = {"id": "t", "prompt": "Tea?", "response1": "Green.", "response2": "Black.",
           "better.responses": [0, 1], "better.responses.users": ["ann", "bob"]}  # fmt: skip
    with pytest.raises(
        UsageError, match=r"better.responses is 0, 1.*--vote 0=first --vote 1=second"
    ):
        load(tmp_path, [row])
    loaded = load(tmp_path, [row], votes=["0=first", "1=second"])
    assert chosen(loaded) == ["Green.", "Black."]


def test_answers_that_were_not_submitted_are_counted(tmp_path):
    row = {"id": "t", "prompt": "Tea?", "response1": "Green.", "response2": "Black."}
    states = {"b.responses": ["response1"] * 3, "b.responses.users": ["ann", "bob", "cid"],
              "b.responses.status": ["discarded", "submitted", "draft"]}  # fmt: skip
    loaded = load(tmp_path, [row | states])
    assert [one.user_id for one in loaded.rows] == ["bob"]
    assert loaded.account.left_out == {"its answer is discarded": 1, "its answer is draft": 1}
    data = {name: row[name] for name in ("prompt", "response1", "response2")}
    left = [{"value": {"selected": "left"}}]
    given = [{"id": 1, "completed_by": 7, "was_cancelled": True, "result": left},
             {"id": 2, "completed_by": 8, "was_cancelled": False, "result": left},
             {"id": 3, "completed_by": 9, "was_cancelled": False, "result": []}]  # fmt: skip
    none = {"id": 2, "data": data, "annotations": given[:1]}
    loaded = load(tmp_path, [{"id": 1, "data": data, "annotations": given}, none])
    assert [one.user_id for one in loaded.rows] == ["8"]
    assert said(loaded) == "2: annotations left out, cancelled or without a choice"
    assert len(loaded.bad_rows) == 1 and not loaded.account.left_out


def test_lists_as_python_prints_them_are_named_by_column_and_reason(tmp_path):
    row = {"prompt": "Tea?", "response1": "Green.", "response2": "Black.",
           "b.responses": "['response1']", "b.responses.users": "['ann']"}  # fmt: skip
    with pytest.raises(DataError, match=r"`b.responses`.*row 1 .*list of JSON.*json.dumps"):
        load(tmp_path, [row])


def test_conversations_that_part_early_say_how_votes_on_a_first_answer_are_read(tmp_path):
    talks = {
        f"conversation_{side}": [
            {"role": role, "content": f"{text} of {side}" if role == "assistant" else text}
            for role, text in (("user", "Tea?"), ("assistant", "Yes"), ("user", "Why?"),
                               ("assistant", "Well"))
        ]
        for side in "ab"
    }  # fmt: skip
    with pytest.raises(DataError, match=r"begins otherwise .* first answer cut both behind it"):
        load(tmp_path, [{**talks, "winner": "model_a", "turn": 1}])


# what a further ten showed


@pytest.mark.parametrize("name", ["left", "order", "swapped", "left_model"])
def test_a_column_that_may_say_what_stood_where_is_said(tmp_path, name):
    row = {"prompt": "Tea?", "response_a": "Green.", "response_b": "Black.", "winner": "left"}
    rows = [{**row, "prompt": f"Tea {k}?", name: side} for k, side in enumerate("abba")]
    assert f"`{name}` may say which response stood where" in said(load(tmp_path, rows))
    assert said(load(tmp_path, [{**row, name: "a"} for row in rows])) == ""
    of_visits = [{**row, "evaluation_order": k % 2} for k, row in enumerate(PAIRS)]
    assert said(load(tmp_path, of_visits)) == ""


def test_votes_of_nobody_that_are_opposite_are_said(tmp_path):
    rows = [ROW, {**ROW, "winner": "b"}, {**ROW, "prompt": "Coffee?"}]
    line = ("1 votes are against an earlier one, and neither names a user: two who differ "
            "in couples, nobody in agreement and ceilings")  # fmt: skip
    assert line in said(load(tmp_path, rows))
    assert line not in said(load(tmp_path, [ROW, ROW, rows[2]]))
    of_two = [{**row, "rater": who} for row, who in zip(rows, "abc", strict=True)]
    assert line not in said(load(tmp_path, of_two))


def test_three_numbers_are_offered_in_both_orders(tmp_path):
    rows = [{**row, "winner": n} for row, n in zip(PAIRS, (0.2, 0.5, 0.7), strict=False)]
    with pytest.raises(UsageError) as refusal:
        load(tmp_path, rows)
    assert "--vote 0.2=first --vote 0.5=tie --vote 0.7=second" in str(refusal.value)
    assert "--vote 0.2=second --vote 0.5=tie --vote 0.7=first" in str(refusal.value)


@pytest.mark.parametrize("name", ["system", "context"])
def test_an_only_response_names_what_sets_it_apart(tmp_path, name):
    rows = [
        {"prompt": "Tea?", "response": text, "score": n, name: of}
        for text, n, of in [("Green.", 1, "base"), ("Black.", 2, "new")]
    ]
    with pytest.raises((DataError, UsageError), match=f"--map extra={name}"):
        load(tmp_path, rows)
    assert chosen(load(tmp_path, rows, f"extra={name}")) == ["Black."]


@pytest.mark.parametrize(
    "votes",
    [
        {"votes": [{"user_id": "ann", "winner": "b"}, {"user_id": "bob", "winner": "b"}]},
        {"annotator_1": "b", "annotator_2": "b"},
    ],
)
def test_a_winner_beside_the_votes_of_several_is_refused_with_both_flags(tmp_path, votes):
    rows = [{**row, **votes} for row in PAIRS]
    with pytest.raises(UsageError, match="could be the votes") as refusal:
        load(tmp_path, rows)
    for name in ("winner", *votes):
        assert f"--map extra={name}" in str(refusal.value)
    assert chosen(load(tmp_path, rows, *(f"extra={name}" for name in votes))) == ["Green."] * 4
    assert chosen(load(tmp_path, rows, "extra=winner")) == ["Black."] * 8
    assert len(load(tmp_path, rows, "winner=winner").rows) == 4


@pytest.mark.parametrize("votes", [["a", "b", "b"], [{"winner": "b"}, {"winner": "b"}]])
def test_a_list_of_votes_beside_the_winner_is_said(tmp_path, votes):
    line = "`votes` may hold several people's votes, and winner alone is read"
    assert line in said(load(tmp_path, [{**row, "votes": votes} for row in PAIRS]))
    assert line not in said(load(tmp_path, [{**row, "votes": 3} for row in PAIRS]))
