"""What files hold that is no row, no person, no score, or one thing twice: refused or counted."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest

from palate.benchmarks import Dataset, couple_votes
from palate.data import Account, LoadedRows, LoadOptions, collect, load_rows
from palate.errors import DataError, UsageError
from palate.records import normal_form
from row_files import load, said, write

VOTE = {"question": "Tea?", "chosen": "Green.", "rejected": "Black."}


def votes(*users: object, **more: object) -> list[dict[str, Any]]:
    return [
        {**VOTE, "id": f"r{k}", "user_id": user, "question": f"Tea {k}?", **more}
        for k, user in enumerate(users)
    ]


def problems(loaded: LoadedRows) -> list[str]:
    return [f"{error.field}: {error.problem}" for error in loaded.bad_rows]


# ids that lost digits


@pytest.mark.parametrize("user", [
    1.5e18, 2.0**53, "9.06E+17", "1,2E+12", "3e+09", "1582218195625938944.0",
])  # fmt: skip
def test_an_id_that_lost_digits_is_a_bad_row_that_names_the_cause(tmp_path, user):
    loaded = load(tmp_path / "v.jsonl", votes("ann", user, 7.0, "12e4"))
    assert [row.user_id for row in loaded.rows] == ["ann", "7", "12e4"]
    (problem,) = problems(loaded)
    assert problem.startswith("user_id: ") and "lost digits" in problem


def test_an_id_that_lost_digits_in_posts_choices_and_rows_is_refused_by_its_line(tmp_path):
    posts = tmp_path / "p.csv"
    posts.write_text("worker,text\nann,Mild.\n9.06E+17,Strong.\n")
    with pytest.raises(DataError, match=r"p.csv:3: `worker`: .*lost digits"):
        load(tmp_path / "v.jsonl", votes("ann"), posts=posts)
    with pytest.raises(DataError, match=r"profile.*lost digits|lost digits"):
        load(tmp_path / "v.jsonl", votes("ann", profile=[{"id": 1e17, "text": "Hm."}]),
             skip=False)  # fmt: skip
    file = tmp_path / "w.csv"
    posts.write_text("worker,text\nann,Mild.\n")
    loaded = load(file, "id,user_id,question,chosen,rejected\n1,ann,a?,b,c\n2,1E+15,a?,b,c\n",
                  posts=posts)  # fmt: skip
    assert len(loaded.rows) == len(loaded.bad_rows) == 1


def test_12_and_12_0_of_csv_are_one_person_and_it_is_said(tmp_path):
    text = "id,user_id,question,chosen,rejected\n1.0,12,a?,b,c\n2.0,12.000,d?,b,c\n3,12.5,d?,b,c\n"
    loaded = load(tmp_path / "v.csv", text)
    assert [(row.id, row.user_id) for row in loaded.rows] == [
        ("1", "12"), ("2", "12"), ("3", "12.5"),
    ]  # fmt: skip
    assert "in 2 rows an id ends in .0" in said(loaded)


def test_zeros_that_only_one_file_has_are_named(tmp_path):
    posts = tmp_path / "p.csv"
    posts.write_text("user_id,text\nann,Mild.\n7,Strong.\n")
    loaded = load(tmp_path / "v.jsonl", votes("ann", "007"), posts=posts)
    assert "1 of 2 users have no post" in said(loaded)
    assert "('007' in the rows, '7' there)" in said(loaded)
    assert "two ids differ in zeros or capitals alone: two users? ('007' and '7')" in said(
        load(tmp_path / "v.jsonl", votes("7", "007"))
    )
    assert "zeros" not in said(load(tmp_path / "v.jsonl", votes("7", "008", "0x7")))


# quotes that are text

TSV = 'question\tchosen\trejected\nq1\t"To begin\tB.\nq2\tA.\tC.\nq3\t5"\tD.\nq4\tE.\tF.\n'


def test_quotes_that_may_be_text_are_refused_with_the_line_and_the_flag(tmp_path):
    file = tmp_path / "v.tsv"
    with pytest.raises(DataError, match=r"v.tsv:2: .*--quoting none .*--quoting minimal"):
        load(file, TSV)
    loaded = load(file, TSV, quoting="none")
    assert [row.text for row in loaded.rows] == ["q1", "q2", "q3", "q4"]
    assert [row.chosen for row in loaded.rows][::2] == ['"To begin', '5"']
    assert len(load(file, TSV, quoting="minimal").rows) == 2
    with pytest.raises(DataError, match="not closed; --quoting none"):
        load(file, TSV.replace('5"', "5"))
    with pytest.raises(DataError, match="--quoting none"):
        load(file, 'question\tchosen\trejected\nq1\tAndy\t"A friend" of Bob\n')
    with pytest.raises(UsageError, match="--quoting all: expected none or minimal"):
        load(file, TSV, quoting="all")


def test_quoting_reaches_the_posts(tmp_path):
    posts = tmp_path / "p.tsv"
    posts.write_text('user_id\ttext\nann\t"I begin\nann\tMild.\nann\tAn inch is 2.54"\n')
    with pytest.raises(DataError, match=r"p.tsv:2: .*--quoting none"):
        load(tmp_path / "v.jsonl", votes("ann"), posts=posts)
    (row,) = load(tmp_path / "v.jsonl", votes("ann"), posts=posts, quoting="none").rows
    assert len(row.profile) == 3


@pytest.mark.parametrize("text", [
    'question,chosen,rejected\nq1,"one\ntwo, three",B.\nq2,A.,C.\n',
    'question,chosen,rejected\nq1,"one\n\nA, so, said she\nend",B.\n',
    '"question","chosen","rejected"\n"q1","a\nb,c,d","e"\n',
    'question\tchosen\trejected\nq1\t"one line"\tB.\n',
])  # fmt: skip
def test_quotes_around_cells_are_read_without_a_question(tmp_path, text):
    loaded = load(tmp_path / "v.csv", text)
    assert loaded.rows and not any('"' in row.chosen for row in loaded.rows)


# nobody


@pytest.mark.parametrize("name", [
    "[deleted]", "nan", "None", "N/A", "NA", "${user_id}", "{{ user }}", "unknown", " null ",
])  # fmt: skip
def test_nobody_is_no_person_in_rows_and_posts(tmp_path, name):
    loaded = load(tmp_path / "v.jsonl", votes("ann", name, "Na", "nana", "none of you"))
    assert [row.user_id for row in loaded.rows] == ["ann", "Na", "nana", "none of you"]
    assert "names nobody" in problems(loaded)[0]
    posts = write(tmp_path / "p.jsonl", [
        {"user_id": "ann", "text": "Mild."}, {"user_id": name, "text": "Strong."},
    ])  # fmt: skip
    loaded = load(tmp_path / "v.jsonl", votes("ann"), posts=posts)
    assert sum(loaded.account.left_out.values()) == 1 and "who is nobody" in said(loaded)


def test_a_post_that_was_removed_is_none(tmp_path):
    posts = write(tmp_path / "p.jsonl", [
        {"user_id": "ann", "text": text} for text in ("Mild.", "[removed]", " [Deleted] ")
    ])  # fmt: skip
    loaded = load(tmp_path / "v.jsonl", votes("ann"), posts=posts)
    assert [post.text for post in loaded.rows[0].profile] == ["Mild."]
    assert "2 rows left out: posts that say [removed]" in said(loaded)
    loaded = load(tmp_path / "v.jsonl", votes("ann", profile=["[removed]", "Read [removed] once"]))
    assert [post.text for post in loaded.rows[0].profile] == ["Read [removed] once"]
    assert "1 posts that were removed" in said(loaded)


def test_an_id_may_be_a_name_of_nobody(tmp_path):
    (row,) = load(tmp_path / "v.jsonl", [{**VOTE, "id": "unknown"}]).rows
    assert row.user_id == "unknown"


# scores that are none


@pytest.mark.parametrize("gap", [math.nan, None, math.inf, ""])
def test_a_gap_costs_no_other_pair_of_its_list(tmp_path, gap):
    rows = [{"prompt": f"{k}?", "responses": ["A.", "B.", "C."], "scores": [gap, 4, 2]}
            for k in range(2)]  # fmt: skip
    loaded = load(tmp_path / "v.jsonl", rows)
    assert [(row.chosen, row.rejected) for row in loaded.rows] == [("B.", "C.")] * 2
    assert loaded.account.merged == {"responses without a score, in no pair": 2}
    rows = [{"prompt": "A?", "response": text, "score": score}
            for text, score in (("A.", 1), ("B.", gap), ("C.", 3))]  # fmt: skip
    (row,) = load(tmp_path / "v.jsonl", rows).rows
    assert (row.chosen, row.rejected) == ("C.", "A.")


def test_a_list_with_one_score_and_a_pair_without_one_are_bad_rows(tmp_path):
    rows = [{"prompt": f"{k}?", "responses": ["A.", "B."], "scores": scores}
            for k, scores in enumerate(([1, 2], [math.nan, 2]))]  # fmt: skip
    loaded = load(tmp_path / "v.jsonl", rows)
    assert len(loaded.rows) == 1 and "1 responses with a score" in problems(loaded)[0]
    cells = "prompt,response_a,response_b,score_a,score_b\n"
    loaded = load(tmp_path / "v.csv", f"{cells}q1,a,b,1,2\nq2,a,b,nan,2\nq3,a,b,inf,2\nq4,a,b,,2\n")
    assert len(loaded.rows) == 1
    assert [error.field for error in loaded.bad_rows] == ["score_a"] * 3


# one thing twice


def test_a_response_rated_twice_by_one_person_has_their_mean(tmp_path):
    rows = [{"prompt": "A?", "user_id": user, "response": text, "score": score}
            for user, text, score in (("ann", "A.", 5), ("ann", "A. ", 1), ("ann", "B.", 4),
                                      ("bob", "A.", 5), ("bob", "B.", 4))]  # fmt: skip
    loaded = load(tmp_path / "v.jsonl", rows)
    assert [(row.user_id, row.chosen, row.gold.ratings) for row in loaded.rows] == [
        ("ann", "B.", (4, 3)), ("bob", "A.", (5, 4)),
    ]  # fmt: skip
    assert "1: ratings of a response that was rated before: their mean counts" in said(loaded)
    rows = [{"prompt": "A?", "responses": ["A.", "B.", "A."], "scores": [5, 3, 1]}]
    (row,) = load(tmp_path / "v.jsonl", rows).rows
    assert row.tie and row.gold.ratings == (3, 3)


def test_votes_that_are_there_twice_or_both_ways_are_counted(tmp_path):
    first, second = votes("ann", "bob")
    rows = [
        first, second, {**first, "id": "x", "chosen": "Green. "},
        {**first, "user_id": "cy", "id": "y"},
        {**second, "id": "z", "chosen": "Black.", "rejected": "Green."},
    ]  # fmt: skip
    loaded = load(tmp_path / "v.jsonl", rows)
    assert list(loaded.account.merged.values()) == [1, 1]
    assert "1: equal votes of one person, each counted (the first: row 3)" in said(loaded)
    assert "against an earlier one of theirs, each counted (the first: row 5)" in said(loaded)


# texts that are JSON


@pytest.mark.parametrize("text", [
    '[{"a": 1}]', '["red"]', "[]", "[1]", '[{"role": "wizard", "content": "x"}]', "[sic]", "{}",
])  # fmt: skip
def test_a_text_that_is_json_is_a_text_in_every_layout(tmp_path, text):
    plain = votes(*["ann"] * 5)
    contract = [*plain, {**VOTE, "id": "j", "user_id": "ann", "chosen": text}]
    assert load(tmp_path / "c.jsonl", contract).rows[-1].chosen == text
    vote = [{"prompt": f"{k}?", "response_a": "A.", "response_b": b, "winner": "b"}
            for k, b in enumerate(("B.", text))]  # fmt: skip
    assert load(tmp_path / "v.jsonl", vote).rows[-1].chosen == text
    rated = [{"prompt": f"{k}?", "completions": [{"response": a, "score": 2},
              {"response": "B.", "score": 1}]} for k, a in enumerate(("A.", text))]  # fmt: skip
    assert load(tmp_path / "r.jsonl", rated).rows[-1].chosen == text
    rows = [{"prompt": f"{k}?", "response": r, "score": k % 2}
            for k, r in ((2, "C."), (2, "D."), (1, "A."), (1, text))]  # fmt: skip
    rows[-1]["score"] = 7
    assert load(tmp_path / "s.jsonl", rows).rows[-1].chosen == text


def test_a_prompt_that_is_json_is_a_text(tmp_path):
    vote = [{"prompt": prompt, "response_a": "A.", "response_b": "B.", "winner": "b"}
            for prompt in ("Why?", '["red"]', '[{"a": 1}]', "[]")]  # fmt: skip
    loaded = load(tmp_path / "v.jsonl", vote)
    assert [row.text for row in loaded.rows] == ["Why?", '["red"]', '[{"a": 1}]', "[]"]


# files that were joined

HEADER = "id,user_id,question,chosen,rejected\n"


def test_a_header_and_a_bom_within_a_file_are_left_out_and_counted(tmp_path):
    text = f"\ufeff{HEADER}1,ann,a?,b,c\n\ufeff{HEADER}2,bob,a?,b,c\n"
    loaded = load(tmp_path / "v.csv", text)
    assert [row.user_id for row in loaded.rows] == ["ann", "bob"]
    assert "1 row left out: the header once more" in said(loaded)
    assert "1: lines within a file that begin with a BOM" in said(loaded)
    rows = "\n\ufeff".join(json.dumps(row) for row in votes("ann", "bob"))
    loaded = load(tmp_path / "v.jsonl", rows)
    assert len(loaded.rows) == 2 and "BOM" in said(loaded)
    with pytest.raises(DataError, match=r"v.csv:3: a header within the file, .*another order"):
        load(tmp_path / "v.csv", f"{HEADER}1,ann,a?,b,c\nid,user_id,question,rejected,chosen\n")


def test_shards_of_unlike_columns_are_named_and_refused_where_users_are_missing(tmp_path):
    folder = tmp_path / "shards"
    folder.mkdir()
    (folder / "v-1.csv").write_text(f"{HEADER}1,ann,a?,b,c\n")
    (folder / "v-2.csv").write_text("id,user_id,question,chosen,rejected,day\n2,bob,a?,b,c,x\n")
    loaded = load_rows(folder)
    assert "v-1.csv has no column 'day', which v-2.csv has" in said(loaded)
    (folder / "v-2.csv").write_text("id,question,chosen,rejected\n2,a?,b,c\n")
    with pytest.raises(DataError, match=r"v-2.csv has no column 'user_id', which v-1.csv has"):
        load_rows(folder, LoadOptions(skip_bad_rows=True))


def test_a_shard_whose_users_are_all_missing_is_counted(tmp_path):
    for k, user in enumerate(("ann", None)):
        write(tmp_path / f"v-{k}.jsonl", [{**VOTE, "id": k, "user_id": user}])
    assert "1 of 2 rows name no user, where others do" in said(load_rows(tmp_path))


def test_rows_without_a_user_among_named_ones_are_counted(tmp_path):
    loaded = load(tmp_path / "v.jsonl", votes("ann", None, "bob"))
    line = "1 of 3 rows name no user, where others do: each a user of its own in couples, "
    assert f"{line}nobody in agreement and ceilings" in said(loaded)
    assert "no user" not in said(load(tmp_path / "v.jsonl", votes(None, None)))


# sides that can be told apart, texts that are one


@pytest.mark.parametrize("side", [
    '{"role": "assistant", "content": "Green."}', '[{"from": "gpt", "value": "Green."}]',
    "('Green.',)", '["Green."]', "['Green.']",
])  # fmt: skip
def test_a_side_that_is_wrapped_in_half_of_the_rows_is_said(tmp_path, side):
    rows = votes(*["ann"] * 10)
    wrapped = [{**row, "chosen": side} if k % 2 else row for k, row in enumerate(rows)]
    assert "in 5 of 10 rows one response alone" in said(load(tmp_path / "v.jsonl", wrapped))
    three, two = [*wrapped[:6], *rows[6:]], [*wrapped[:4], *rows[4:]]
    assert "in 3 of 10 rows one response alone stands in brackets" in said(
        load(tmp_path / "v.jsonl", three))  # fmt: skip
    assert "brackets" not in said(load(tmp_path / "v.jsonl", two))
    both = [{**row, "rejected": side + " "} if k % 4 == 1 else row for k, row in enumerate(wrapped)]
    assert "in 2 of" not in said(load(tmp_path / "v.jsonl", both))
    assert "response alone" not in said(load(tmp_path / "v.jsonl", rows))


@pytest.mark.parametrize("mark", ["\u00ad", "\u200b", "\ufeff", "\u2060", "\u200e"])
def test_what_has_no_width_makes_no_other_text(tmp_path, mark):
    assert normal_form(f"Gre{mark}en {mark} tea{mark}") == normal_form("Green tea")
    with pytest.raises(DataError, match="what has no width"):
        load(tmp_path / "v.jsonl", votes("ann", "bob", f"an{mark}n"))
    rows = votes("ann", "bob", question="Tea?")
    rows[1] |= {"chosen": f"Bla{mark}ck.", "rejected": f"Green{mark}."}
    assert len(couple_votes(Dataset.of(rows))) == 2
    assert normal_form("می\u200cخواهم") != normal_form("میخواهم")  # spelling
    assert normal_form("👩\u200d🚀") != normal_form("👩🚀")


def test_an_account_has_columns_rows_and_people_and_no_cell_id_or_path(tmp_path):
    rows = [*votes("ann", "bo", "ann"), *votes("[deleted]", "bo")]
    rows[0]["profile"] = [{"text": "Mild."}, {"text": "[removed]"}]
    rows[2].update(chosen_rating='it\'s "Secret" 7', age=7)
    rows[3]["id"] = "r9"
    path = write(tmp_path / "v.jsonl", rows)
    account = load_rows(path, LoadOptions(skip_bad_rows=True)).account
    assert account.columns.pop("age", None) is None, "of a bad row alone"
    assert account.columns == {name: name for name in ("id", "user_id", *VOTE, "profile")}
    assert (account.rows, account.users, account.with_posts) == (2, 2, 1)
    assert account.bad_rows == {
        "chosen_rating: expected a finite number, got …": 1,
        "user_id: … names nobody; leave the cell empty, or name them": 1,
        "id: … was used in row …": 1,
    }
    kept = " ".join(account.facts().values())
    private = ("Secret", "deleted", "r1", str(tmp_path), "row 1")
    assert [word for word in private if word in kept] == []
    assert "1 posts that were removed" in kept
    assert "(the first: row 1, profile[1].text)" in account.surprises()[0]


def test_mapped_columns_stand_in_the_account_by_their_names_in_the_file(tmp_path):
    rows = [
        {**row, "better": row["chosen"], "worse": row["rejected"]} for row in votes("ann", "bo")
    ]
    rows = [{n: v for n, v in row.items() if n not in ("chosen", "rejected")} for row in rows]
    named = {"chosen": "better", "rejected": "worse"}
    account = load_rows(write(tmp_path / "v.jsonl", rows), LoadOptions(columns=named)).account
    assert account.columns["better"] == "chosen (--map)" and "chosen" not in account.columns
    turned = load_rows(
        tmp_path / "v.jsonl", LoadOptions(columns={"chosen": "worse", "rejected": "better"})
    )
    assert turned.account.columns["better"] == "rejected (--map)"


def test_annotators_who_share_a_tasks_id_have_rows_of_their_own(tmp_path):
    rows = [
        {"id": f"t{k // 3}", "user_id": f"u{k % 3}", "question": f"Tea, {k // 3}?",
         "chosen": "Green." if k % 3 else "Black.", "rejected": "Black." if k % 3 else "Green."}
        for k in range(9)
    ]  # fmt: skip
    loaded = collect(enumerate(rows, 1), Account("f"), "f")
    assert [row.id for row in loaded.rows[:3]] == ["t0-u0", "t0-u1", "t0-u2"]
    assert loaded.account.merged == {
        "rows share an id with other users' rows, and are named id-user": 9}  # fmt: skip
    turned = collect(enumerate(rows[::-1], 1), Account("f"), "f")
    assert {row.id for row in turned.rows} == {row.id for row in loaded.rows}
    twice = collect(
        enumerate([*rows, rows[0]], 1), Account("f"), "f", LoadOptions(skip_bad_rows=True)
    )
    assert [error.field for error in twice.bad_rows] == ["id"], "one person's vote twice"
    with pytest.raises(DataError, match="names an id that several"):
        named = {**rows[0], "id": "x", "mirror_of": "t0"}
        collect(enumerate([*rows, named], 1), Account("f"), "f")


# traits


def test_columns_of_a_flat_file_are_read_as_traits(tmp_path):
    text = "id,user_id,question,chosen,rejected,region,age\n1,ann,a?,b,c,N,30\n2,bob,a?,b,c,,41\n"
    both = {"ann": {"region": "N", "age": "30"}, "bob": {"age": "41"}}
    for flags in (
        ["traits=region,age"],
        ["traits=region", "traits=age"],
        ["traits=age,region,age"],
    ):
        loaded = load(tmp_path / "v.csv", text, *flags)
        assert {row.user_id: dict(row.traits) for row in loaded.rows} == both
        assert loaded.unknown_columns == ()
    assert dict(load(tmp_path / "v.csv", text, "traits=region").rows[0].traits) == {"region": "N"}
    for held in ({"region": "N"}, '{"region": "N"}', None):
        (row,) = load(tmp_path / "v.jsonl", votes("ann", about=held), "traits=about").rows
        assert dict(row.traits) == ({"region": "N"} if held else {})
    with pytest.raises(DataError, match=r"no row has 'town' \(from --map traits=town\)"):
        load(tmp_path / "v.csv", text, "traits=region,town")


def test_columns_of_the_contract_stay_when_they_are_traits_too(tmp_path):
    rows = votes("ann", split="adapt", category="tea", traits={"age": 4})
    (row,) = load(tmp_path / "v.jsonl", rows, "traits=split,category,traits").rows
    assert (row.split, row.category) == ("adapt", "tea")
    assert dict(row.traits) == {"split": "adapt", "category": "tea", "age": "4"}


def test_texts_that_begin_like_json_are_traits_and_objects_are_merged(tmp_path):
    text = 'id,user_id,question,chosen,rejected,region,more\n1,ann,a?,b,c,{},"{{""age"": 4}}"\n'
    for cell in ("{west}", '"[1, 2"', "[3]"):
        told = {"region": cell.strip('"')}
        for column, both in (("region", told), ("region,more", told | {"age": "4"})):
            (row,) = load(tmp_path / "v.csv", text.format(cell), f"traits={column}").rows
            assert dict(row.traits) == both
    rows = votes("ann", more={"age": 4, "at": "N"}, at="S")
    (row,) = load(tmp_path / "v.jsonl", rows, "traits=more,at").rows
    assert dict(row.traits) == {"age": "4", "at": "S"}
    with pytest.raises(DataError, match="'at': expected text or a number, got list"):
        load(tmp_path / "v.jsonl", votes("ann", at=[1]), "traits=at,id")


def test_two_forms_of_one_trait_are_named(tmp_path):
    for values in ((30, 30.0), ("North", "north")):
        rows = [
            row for k, value in enumerate(values) for row in votes(f"u{k}", traits={"at": value})
        ]
        rows = [{**row, "id": k} for k, row in enumerate(rows)]
        told = "two values of at differ in zeros or capitals alone: two kinds? ({!r} and {!r})"
        assert told.format(*sorted(map(str, values))) in said(load(tmp_path / "v.jsonl", rows))
    assert "two values" not in said(load(tmp_path / "v.jsonl", votes("u", traits={"at": " N "})))
    rows = [
        votes("ann", traits={"at": at})[0] | {"id": at, "user_id": f"u{k}"}
        for k, at in enumerate(("N/A", "n/a", "NULL", "null", "N"))
    ]
    assert "two values" not in said(load(tmp_path / "v.jsonl", rows))


def test_many_traits_are_compared_in_one_pass(tmp_path):
    rows = votes("ann", traits={f"t{k}": "a" for k in range(10_000)})
    start = time.process_time()
    load(tmp_path / "v.jsonl", rows)
    assert time.process_time() - start < 1.5
