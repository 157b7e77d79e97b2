"""What more public files showed: flags that nothing reads, and columns that tell more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import row_files
from palate.data import LoadedRows, parse_columns
from palate.errors import DataError, UsageError
from row_files import chosen, said

ROW = {"prompt": "Which tea?", "response_a": "Green.", "response_b": "Black.", "winner": "a"}
PAIRS = [{**ROW, "prompt": f"Which tea, {k}?"} for k in range(4)]


def load(folder: Path, rows: list[dict[str, Any]], *columns: str, **options: Any) -> LoadedRows:
    return row_files.load(folder / "file.jsonl", rows, *columns, **options)


def without(row: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in names}


# names of --map that nothing reads


@pytest.mark.parametrize("name", ["score", "winner", "response", "rank", "response_c", "votes"])
def test_a_name_that_nothing_reads_is_refused(tmp_path, name):
    pairs = [{"question": f"Tea {k}?", "chosen": "Green.", "rejected": "Black.", "said": "b"}
             for k in range(2)]  # fmt: skip
    with pytest.raises(UsageError, match=f"nothing reads --map {name}=…"):
        load(tmp_path, pairs, f"{name}=said")
    assert len(load(tmp_path, pairs, "user_id=said", "category=said").rows) == 2


def test_chosen_beside_a_vote_and_a_score_within_a_list_are_refused(tmp_path):
    rows = [{**row, "better": row["response_b"]} for row in PAIRS]
    with pytest.raises(UsageError, match="nothing reads --map chosen=…: layout vote"):
        load(tmp_path, rows, "chosen=better")
    answers = [{"text": "Green.", "score": 1}, {"text": "Black.", "score": 2}]
    rated = [{"prompt": "Tea?", "mine": 1, "answers": answers}]
    with pytest.raises(UsageError, match=r"nothing reads --map score=….*answers\.score"):
        load(tmp_path, rated, "score=mine")


def test_a_users_column_that_a_layout_has_of_its_own_is_no_other(tmp_path):
    row = {"person_id": 1, "prompt_1": "Tea?", "response_1_a": "Green.", "response_1_b": "Black.",
           "chosen_1": "a", "who": "ann"}  # fmt: skip
    with pytest.raises(UsageError, match="nothing reads --map user_id=…"):
        load(tmp_path, [row], "user_id=who")


def test_user_id_beside_an_annotator_is_refused_until_it_is_told(tmp_path):
    rows = [{**row, "user_id": "asker", "annotator_id": f"w{k}"} for k, row in enumerate(PAIRS)]
    with pytest.raises(UsageError) as refused:
        load(tmp_path, rows)
    assert "--map user_id=user_id or --map user_id=annotator_id" in str(refused.value)
    assert {row.user_id for row in load(tmp_path, rows, "user_id=user_id").rows} == {"asker"}
    assert len({row.user_id for row in load(tmp_path, rows, "user_id=annotator_id").rows}) == 4


def test_an_annotator_whose_votes_are_not_known_is_not_lost(tmp_path):
    rows = [{**without(row, "winner"), "anna": "a", "ben": "maybe"} for row in PAIRS]
    loaded = load(tmp_path, [*rows, {**rows[0], "ben": "b"}], "votes=anna,ben")
    assert len(loaded.rows) == 2 and len(loaded.bad_rows) == 4
    assert "the vote 'maybe' is not known" in loaded.bad_rows[0].problem


# names that --map gives


def test_a_choice_among_four_is_told_by_numbered_names(tmp_path):
    rows = [{"query": f"She walked, {k}", **{f"sample{n}": f"{n} of {k}." for n in range(4)},
             "best": k} for k in range(4)]  # fmt: skip
    names = [f"response_{n}=sample{n}" for n in range(4)]
    loaded = load(tmp_path, rows, *names, "winner=best")
    assert chosen(loaded) == [f"{k} of {k}." for k in range(4) for _ in range(3)]


def test_ranks_scores_and_one_hot_votes_are_told(tmp_path):
    lists = [{"asked": "Coal?", "texts": ["Ban it.", "Keep it.", "Tax it."], "places": places}
             for places in ([0, 1, 2], [2, 1, 1])]  # fmt: skip
    loaded = load(tmp_path, lists, "question=asked", "responses=texts", "rank=places")
    assert chosen(loaded)[:3] == ["Ban it.", "Ban it.", "Keep it."]
    assert chosen(loaded)[3:] == ["Keep it.", "Keep it.", "Tax it."] and loaded.rows[3].tie
    two = [{"prompt": "Tea?", "conv_a": "Green.", "conv_b": "Black.", "conv_a_n": a, "conv_b_n": b}
           for a, b in ((7.0, 1.0), (3.0, 4.0))]  # fmt: skip
    both = ("response_a=conv_a", "response_b=conv_b")
    loaded = load(tmp_path, two, *both, "score_a=conv_a_n", "score_b=conv_b_n")
    assert chosen(loaded) == ["Green.", "Black."]
    hot = [{**without(row, "winner"), "pref.a": a == "true", "pref.b": a} for row, a in
           zip(PAIRS, ("false", "true", "false", "true"), strict=True)]  # fmt: skip
    hot = [{**row, "pref.a": row["pref.b"] == "false"} for row in hot]
    loaded = load(tmp_path, hot, "winner_a=pref.a", "winner_b=pref.b")
    assert chosen(loaded) == ["Green.", "Black."] * 2
    with pytest.raises(UsageError, match="write palate's column=your column"):
        parse_columns(["winner_c=x"])


@pytest.mark.parametrize(("values", "flags"), [
    ((True, False), ["true=first", "false=second"]),
    ((False, True), ["true=second", "false=first"]),
])  # fmt: skip
def test_true_and_false_are_told(tmp_path, values, flags):
    rows = [{**row, "winner": value} for row, value in zip(PAIRS, values, strict=False)]
    with pytest.raises(DataError, match=r"holds no usable row.*--vote (True|False)=first"):
        load(tmp_path, rows)
    assert chosen(load(tmp_path, rows, votes=flags)) == ["Green.", "Black."]


# questions whose responses nothing reads


@pytest.mark.parametrize("names", [("response A", "response B"), ("text_1", "text_2"),
                                   ("response_chosen", "response_rejected")])  # fmt: skip
def test_a_question_beside_responses_that_nothing_reads_is_refused(tmp_path, names):
    rows = [{"question": f"Tea {k}?", names[0]: "Green.", names[1]: "Black.", "said": "A"}
            for k in range(2)]  # fmt: skip
    with pytest.raises(UsageError, match=r"no layout fits.*--layout contract"):
        load(tmp_path, rows)
    assert len(load(tmp_path, rows, name="contract").rows) == 2
    told = [f"chosen={names[0]}", f"rejected={names[1]}"]
    assert chosen(load(tmp_path, rows, *told)) == ["Green."] * 2


@pytest.mark.parametrize("letters", ["AB", "ab", ("option_a", "option_b")])
def test_letters_of_chosen_and_rejected_are_no_texts(tmp_path, letters):
    one, two = letters
    rows = [{"question": f"Tea {k}?", "option_a": "Green.", "option_b": "Black.",
             "chosen": (one, two)[k], "rejected": (two, one)[k]} for k in range(2)]  # fmt: skip
    with pytest.raises(UsageError, match="--map winner=chosen and --layout vote"):
        load(tmp_path, rows)
    assert chosen(load(tmp_path, rows, "winner=chosen", name="vote")) == ["Green.", "Black."]
    texts = [{**row, "chosen": "A", "rejected": "B"} for row in rows]
    plain = [without(row, "option_a", "option_b") for row in texts]
    assert chosen(load(tmp_path, plain)) == ["A", "A"], "texts, where no column has such a name"


# options in any order, rankings


def test_an_accepted_option_goes_by_its_id(tmp_path):
    texts = {0: "Green.", 1: "Black."}
    rows = [{"text": f"Tea {k}?", "answer": "accept", "accept": [k % 2], "_annotator_id": "ann",
             "options": [{"id": n, "text": texts[n]} for n in ((0, 1) if k < 2 else (1, 0))]}
            for k in range(4)]  # fmt: skip
    assert chosen(load(tmp_path, rows)) == ["Green.", "Black."] * 2
    for row in rows:
        row["options"] = [{**option, "id": f"v{option['id']}.txt"} for option in row["options"]]
        row["accept"] = [f"v{row['accept'][0]}.txt"]
    assert chosen(load(tmp_path, rows)) == ["Green.", "Black."] * 2
    rows[0]["accept"] = ["v9.txt"]
    (bad,) = load(tmp_path, rows).bad_rows
    assert "is none of v0.txt, v1.txt" in bad.problem


def test_the_first_of_a_ranking_is_the_vote(tmp_path):
    rows = [{"prompt": "Tea?", "response1": "Green.", "response2": "Black.", "id": "t",
             "order.responses": [["response2", "response1"], ["response1", "response2"]],
             "order.responses.users": ["ann", "bob"]}]  # fmt: skip
    loaded = load(tmp_path, rows)
    assert chosen(loaded) == ["Black.", "Green."]
    assert [row.user_id for row in loaded.rows] == ["ann", "bob"]


def test_single_messages_behind_a_prompt_of_messages_are_read(tmp_path):
    asked = [{"role": "user", "content": "Tea?"}]
    answers = {name: {"role": "assistant", "content": text} for name, text in
               (("chosen", "Green."), ("rejected", "Black."))}  # fmt: skip
    (row,) = load(tmp_path, [{"prompt": asked, **answers}]).rows
    assert (row.text, row.chosen) == ("Tea?", "Green.")


# conversations, turns, what else was asked


def replies(*places: tuple[str, int]) -> list[dict[str, Any]]:
    return [{"utterance_id": f"{talk}{turn}{n}", "conversation_id": talk, "turn": turn,
             "user_id": "ann", "user_prompt": "Tell me more." if turn else f"Of {talk}?",
             "model_response": f"{talk} {turn} {n}.", "score": n}
            for talk, turn in places for n in range(2)]  # fmt: skip


def test_one_question_in_two_conversations_is_two(tmp_path):
    loaded = load(tmp_path, replies(("tea", 0), ("tea", 1), ("sea", 0), ("sea", 1)))
    assert chosen(loaded) == ["tea 0 1.", "tea 1 1.", "sea 0 1.", "sea 1 1."]
    line = "`turn` may count earlier turns, and none is read; --map split=turn --split VALUE"
    assert line in said(loaded)
    assert line not in said(load(tmp_path, replies(("tea", 0), ("sea", 0))))
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
    rows = [{**row, "turn": k % 2, "history": turns} for k, row in enumerate(PAIRS)]
    assert "earlier turns, and none" not in said(load(tmp_path, rows))


def test_a_column_that_holds_the_question_and_more_is_said(tmp_path):
    rows = [
        {**row, "prefix": f"{row['prompt']}\nLet us think. Step 1: tea grows."} for row in PAIRS
    ]
    line = "`prefix` holds the question and more, and is not read; --map question=prefix"
    assert line in said(load(tmp_path, rows))
    assert {row.text for row in load(tmp_path, rows, "question=prefix").rows} == {
        row["prefix"] for row in rows
    }
    whole = [{**row, "prefix": f"{row['prefix']} {row['response_a']}"} for row in rows]
    assert line not in said(load(tmp_path, whole)), "the answer stands in it too"


def test_a_context_that_is_not_read_is_said(tmp_path):
    rows = [{**row, "the_context": f"Of {k}."} for k, row in enumerate(PAIRS)]
    line = "`the_context` may be a part of what was asked, and is not read: --map input=the_context"
    assert line in said(load(tmp_path, rows))
    for name in ("input", "extra"):
        assert line not in said(load(tmp_path, rows, f"{name}=the_context"))


def test_messages_as_python_prints_them_are_no_text(tmp_path):
    talks = [[{"role": "user", "content": "Tea?"}, {"role": "assistant", "content": text}]
             for text in ("It's green.", "Black.")]  # fmt: skip
    row = {"conversation_a": str(talks[0]), "conversation_b": str(talks[1]), "winner": "model_b"}
    with pytest.raises(DataError, match=r"a conversation, got messages that are no JSON"):
        load(tmp_path, [row])
    array = str(talks[0]).replace("}, {", "}\n {")  # as numpy prints what Parquet held
    with pytest.raises(DataError, match=r"messages that are no JSON"):
        load(tmp_path, [{**row, "conversation_a": array}])


def test_two_columns_of_scores_are_refused_until_one_is_told(tmp_path):
    rows = [{"prompt": "Tea?", "response": text, "score": n, "rating": -n}
            for n, text in enumerate(("Green.", "Black."))]  # fmt: skip
    with pytest.raises(UsageError, match=r"rating, score could each be the score: .*score=rating"):
        load(tmp_path, rows)
    assert chosen(load(tmp_path, rows, "score=rating")) == ["Green."]
    assert chosen(load(tmp_path, rows, "score=score")) == ["Black."]


# people and rows


@pytest.mark.parametrize("name", ["annotator_index", "persona_id", "Created by", "E-Mail-Adresse"])
def test_further_names_of_who_chose_are_said(tmp_path, name):
    rows = [{**row, name: who} for row, who in zip(PAIRS, "abab", strict=True)]
    assert "no column is read as who chose; --map user_id=" in said(load(tmp_path, rows))
    named = [{**row, "chosen_username": who} for row, who in zip(PAIRS, "abab", strict=True)]
    assert said(load(tmp_path, named)) == "", "who wrote the response"


def test_tainted_rows_are_said_and_a_user_may_be_called_as_the_row(tmp_path):
    rows = [{**row, "id": k, "rater": str(k % 2), "_tainted": k == 3}
            for k, row in enumerate(PAIRS)]  # fmt: skip
    line = said(load(tmp_path, rows))
    assert "`_tainted` tells rows apart" in line and "name no user" not in line


def test_ids_that_differ_in_capitals_are_said(tmp_path):
    rows = [
        {**row, "rater": who} for row, who in zip(PAIRS, ("Ann", "ann", "bo", "bo"), strict=True)
    ]
    assert "or capitals alone: two users? ('Ann' and 'ann')" in said(load(tmp_path, rows))
    assert said(load(tmp_path, [{**row, "rater": "Bo"} for row in rows])) == ""


@pytest.mark.parametrize(("line", "mark"), [("sep=;", ";"), ('"sep=;"', ";"), ("sep=,", ","),
                                            ("sep=|", "|"), ("sep=\t", "\t")])  # fmt: skip
def test_excels_line_of_the_separator_is_heard(tmp_path, line, mark):
    cells = [list(ROW), ["Tea, or not?", "Green.", "Black.", "b"]]
    cells[1][0] = f'"{cells[1][0]}"'
    text = "\r\n".join([line, *map(mark.join, cells)])
    (row,) = row_files.load(tmp_path / "v.csv", text).rows
    assert (row.text, row.chosen) == ("Tea, or not?", "Black.")
