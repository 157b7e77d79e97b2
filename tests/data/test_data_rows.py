from __future__ import annotations

import datetime
import math
from typing import Any
from unicodedata import normalize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.data import (
    Account,
    asked_title,
    choice_key,
    choice_row,
    collect,
    content_hash,
    read_question,
    split_of,
)
from palate.errors import DataError, UsageError
from palate.records import Message, Post, PreferencePair

HALF = "a \ud800 b"
POST = {"id": "p1", "category": "tea", "text": "I like it strong.", "date": "2024-01-01"}
ASPECT = {"aspect": "Strong", "reason": "They said so.", "evidence": "strong"}
GOOD: dict[str, Any] = {
    "id": "r1", "user_id": "u1", "question": "Which tea?\nToday.", "profile": [POST],
    "chosen": "Assam.", "rejected": "Mint.", "subset": "hot", "category": "tea", "split": "test",
    "tie": False, "traits": {"age": 40}, "rubric_aspects": [ASPECT], "narrative": "I am cold.",
    "reference": "Assam!", "chosen_rating": 5, "rejected_rating": 1.5, "rating_scale": [1, 5],
    "responses": ["Assam.", "Water.", "Mint."], "chosen_again": "Mint.",
    "mirror_of": "r2", "attribution": "ann", "source_url": "https://example.org", "mood": "grim",
}  # fmt: skip
FOUR = ("Assam.", "Water.", "Mint.", "other")
REQUIRED = ("id", "question", "chosen", "rejected")
OPTIONAL = tuple(name for name in GOOD if name not in (*REQUIRED, "mood"))
TEXTS = ("question", "chosen", "rejected", "subset", "category", "split", "narrative",
         "reference", "attribution", "source_url")  # fmt: skip
IDENTIFIERS = ("id", "user_id", "mirror_of")
WRONG: list[tuple[str, object, str]] = [
    *((name, 3, "expected text, got int") for name in TEXTS),
    *((name, ["x"], "expected text, got list") for name in TEXTS),
    *((name, " \n", "expected text, got an empty string") for name in TEXTS),
    *((name, HALF, "half a surrogate pair") for name in (*TEXTS, *IDENTIFIERS)),
    *((name, " ", "got an empty string") for name in IDENTIFIERS),
    *((name, 1.5, "text or a whole number, got float") for name in IDENTIFIERS),
    *((name, True, "text or a whole number, got bool") for name in IDENTIFIERS),
    *((name, "", "got an empty string") for name in ("question", "chosen", "rejected", "id")),
    ("tie", 1, "expected true or false, got int"),
    ("tie", "true", "expected true or false, got str"),
    *((f"{side}_rating", bad, "expected a finite number, got ")
      for side in ("chosen", "rejected")
      for bad in ("5", True, math.nan, math.inf, 10**400, [5])),
    *(("rating_scale", bad, "expected [lowest, highest]")
      for bad in (5, [1], [1, 2, 3], ["1", "5"], [False, True], [1, math.inf], [math.nan, 5],
                  [0, 10**400], "15")),
    ("rating_scale", [5, 1], "expected lowest < highest"),
    ("rating_scale", [5, 5], "expected lowest < highest"),
    ("traits", ["old"], "expected {name: value}, got list"),
    ("traits", {"age": [4]}, "expected text or a number, got list"),
    ("traits", {"town": HALF}, "half a surrogate pair"),
    ("traits", {HALF: "x"}, "half a surrogate pair"),
    ("profile", "I like it", "expected a list of objects"),
    ("profile", {"id": "p1"}, "expected a list of objects"),
    ("profile", ["I like it"], "expected a list of objects"),
    ("profile", [POST, POST], "two posts have one id"),
    ("rubric_aspects", "Strong", "expected a list of objects"),
    ("rubric_aspects", ["Strong"], "expected a list of objects"),
]  # fmt: skip
WITHIN: list[tuple[str, str, object, str]] = [
    *(("profile", name, bad, expected)
      for name in ("text", "category")
      for bad, expected in ((7, "text, got int"), (" ", "empty string"), (HALF, "surrogate"))),
    ("profile", "text", None, "expected text, got NoneType"),
    ("profile", "text", "", "got an empty string"),
    ("profile", "category", ["tea"], "expected text, got list"),
    ("profile", "date", {"y": 1}, "expected a date as text or number, got dict"),
    ("profile", "date", True, "expected a date as text or number, got bool"),
    ("profile", "date", 7, "'7' is no date"),
    ("profile", "date", " ", "empty string"),
    ("profile", "date", HALF, "surrogate"),
    ("profile", "id", 1.5, "text or a whole number, got float"),
    ("profile", "id", True, "text or a whole number, got bool"),
    ("profile", "id", "", "got an empty string"),
    ("profile", "id", HALF, "surrogate"),
    *(("rubric_aspects", name, bad, expected)
      for name in ("aspect", "reason", "evidence")
      for bad, expected in ((0, "text, got int"), ([], "text, got list"), (HALF, "surrogate"))),
    ("rubric_aspects", "aspect", None, "expected text, got NoneType"),
    ("rubric_aspects", "aspect", " ", "got an empty string"),
]  # fmt: skip


def refusal(row: dict[str, Any]) -> DataError:
    with pytest.raises(DataError) as caught:
        read_question(row, subset="all")
    assert "\n" not in str(caught.value)
    return caught.value


def test_a_full_row_is_read_whole() -> None:
    pair = read_question(GOOD, subset="all")
    assert isinstance(pair, PreferencePair)
    row = pair.to_row()
    assert set(row) == set(GOOD) - {"mood"}
    for name in (*TEXTS, *IDENTIFIERS, "responses", "tie"):
        assert row[name] == GOOD[name]
    assert (row["profile"], row["rubric_aspects"]) == ([POST], [ASPECT])
    assert (pair.gold.ratings, pair.gold.rating_scale) == ((5.0, 1.5), (1.0, 5.0))
    assert (pair.tie, pair.traits, pair.extra) == (False, {"age": "40"}, {"mood": "grim"})
    assert read_question(row, subset="all") == pair.model_copy(update={"extra": {}})


def test_a_row_without_a_choice_is_a_question() -> None:
    row = {"id": 7, "question": "Tea?", "responses": ["Yes.", "No."], "reference": "Always."}
    question = read_question(row, subset="all")
    assert not isinstance(question, PreferencePair)
    assert (question.responses, question.gold.reference) == (("Yes.", "No."), "Always.")
    bare = read_question({"id": 7, "question": "Tea?"}, subset="all")
    assert (bare.responses, bare.view.responses) == ((), ())
    assert read_question(bare.to_row(), subset="all") == bare


@pytest.mark.parametrize(
    ("change", "field", "expected"),
    [
        ({"rejected": None}, "rejected", "empty or null"),
        ({"chosen": None}, "chosen", "empty or null"),
        ({"responses": ["Assam.", "Water."]}, "rejected", "is none of the row's `responses`"),
        ({"chosen_again": "Water."}, "chosen_again", "is neither `chosen` nor `rejected`"),
        ({"chosen_again": 1}, "chosen_again", "expected text, got int"),
        ({"responses": "Assam."}, "responses", "expected a list of texts, got str"),
        ({"responses": ["Assam.", 3]}, "responses[1]", "expected text, got int"),
        ({"responses": ["Assam.", " "]}, "responses[1]", "expected text, got an empty string"),
        ({"responses": ["A", HALF]}, "responses[1]", "half a surrogate pair"),
        ({"responses": ["Assam.", "Mint.", "Assam."]}, "responses[2]", "as an earlier response"),
    ],
)
def test_half_a_choice_and_bad_responses_are_refused(change, field, expected) -> None:  # type: ignore[no-untyped-def]
    error = refusal(GOOD | change)
    assert error.field == field
    assert expected in error.problem


def test_what_a_context_may_know_of_a_question_says_nothing_of_the_choice() -> None:
    pair = read_question({n: v for n, v in GOOD.items() if n != "responses"}, subset="all")
    assert isinstance(pair, PreferencePair)
    turned = pair.model_copy(update={"chosen": pair.rejected, "rejected": pair.chosen})
    assert pair.view == turned.view == (
        GOOD["question"], "tea", ("Assam.", "Mint."), (),
    )  # fmt: skip
    more = read_question(GOOD, subset="all")
    assert more.view.responses == ("Assam.", "Mint.", "Water.")


def test_four_columns_are_enough() -> None:
    pair = read_question({name: GOOD[name] for name in REQUIRED} | {"id": 7}, subset="hot")
    assert (pair.id, pair.user_id, pair.subset, pair.profile, pair.split) == (
        "7", "7", "hot", (), None,
    )  # fmt: skip


@pytest.mark.parametrize("name", OPTIONAL)
def test_an_optional_column_may_be_absent_or_null(name: str) -> None:
    absent = {key: value for key, value in GOOD.items() if key != name}
    assert read_question(absent, subset="all") == read_question(GOOD | {name: None}, subset="all")


@pytest.mark.parametrize("name", REQUIRED)
def test_a_required_column_may_not(name: str) -> None:
    absent = {key: value for key, value in GOOD.items() if key != name}
    for row, problem in ((absent, "missing; the row has"), (GOOD | {name: None}, "empty or null")):
        error = refusal(row)
        assert error.field == name
        assert problem in str(error)


def test_a_choice_made_again_is_told_by_its_normal_form() -> None:
    pair = read_question(GOOD | {"chosen_again": f" {GOOD['rejected']}  "}, subset="all")
    assert isinstance(pair, PreferencePair)
    assert pair.chosen_again == pair.rejected


@pytest.mark.parametrize(("name", "bad", "expected"), WRONG)
def test_a_bad_value_names_its_field(name: str, bad: object, expected: str) -> None:
    error = refusal(GOOD | {name: bad})
    assert error.field == name
    assert expected in str(error)
    assert len(str(error)) < 200


@pytest.mark.parametrize(("column", "name", "bad", "expected"), WITHIN)
def test_a_bad_value_within_a_list_names_its_place(
    column: str, name: str, bad: object, expected: str
) -> None:
    entry = {"profile": POST, "rubric_aspects": ASPECT}[column]
    fine = {**entry, "id": "p0"} if column == "profile" else entry
    error = refusal(GOOD | {column: [fine, {**entry, name: bad}]})
    assert error.field == f"{column}[1].{name}"
    assert expected in str(error)


def test_the_two_responses_must_differ() -> None:
    error = refusal(GOOD | {"chosen": "Mint."})
    assert (error.field, error.problem) == (
        "chosen", "equals `rejected`; a pair needs two different responses",
    )  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "Which tea?\nToday.",
        " Which  tea? Today. ",
        "Which tea?",
        "  WHICH   tea?\nI never drink any.",
    ],
)
def test_a_post_that_is_the_question_is_a_leak(text: str) -> None:
    error = refusal(GOOD | {"profile": [{**POST, "id": "p0"}, {**POST, "text": text}]})
    assert (error.field, error.problem) == (
        "profile[1].text", "the post is the question itself: a leak",
    )  # fmt: skip


def test_a_post_that_holds_the_question_is_left_out_and_counted(caplog) -> None:
    """A short question stands in many posts: they stop no file."""
    asked = {**POST, "id": "p0", "text": "I asked once: Which tea?   Today. Nobody knew."}
    rows = [GOOD | {"id": k, "profile": [asked, POST]} for k in "ab"]
    with caplog.at_level("WARNING", "palate"):
        loaded = collect(enumerate(rows, 1), Account("tea.jsonl"), "tea")
    assert [len(row.profile) for row in loaded.rows] == [1, 1] and loaded.bad_rows == ()
    record = caplog.records[0]
    assert record.getMessage() == (
        "tea.jsonl: 2 posts that hold their row's question are left out "
        "(the first: row 1, profile[0].text)"
    )


@pytest.mark.parametrize(
    "text", ["Which tea? I do not care.", "My aunt asked: which tea?", "On tea.\nWhich tea?"]
)
def test_a_post_that_only_touches_the_question_is_none(text: str) -> None:
    assert read_question(GOOD | {"profile": [{**POST, "text": text}]}, subset="all").profile


@given(st.text(), st.text(max_size=10))
def test_a_title_is_one_line_whatever_its_case_and_spaces(text: str, space: str) -> None:
    title = asked_title(text)
    assert len(title.splitlines()) <= 1
    assert asked_title(f"  {text}  ") == title


def profile_of(posts: list[dict[str, Any]]) -> tuple[Post, ...]:
    return read_question(GOOD | {"profile": posts}, subset="x").profile


def test_posts_are_put_in_the_order_of_their_dates_where_all_have_one() -> None:
    dates = ["2024-03-01", "2023-01-01T10:00:00", "2024-02-01"]
    posts = [{"id": k, "text": f"post {k}", "date": date} for k, date in enumerate(dates)]
    assert [post.id for post in profile_of(posts)] == list("120")
    posts[1]["date"] = None
    assert [post.id for post in profile_of(posts)] == list("012")


def test_a_date_column_becomes_iso_text() -> None:
    posts = [{**POST, "date": datetime.datetime(2024, 1, 2, 3)}]
    assert profile_of(posts)[0].date == "2024-01-02T03:00:00"


def test_posts_without_ids_are_named_by_their_content() -> None:
    texts = ["one", "two", "one"]
    posts = [{"text": text} for text in texts]
    one, two, again = profile_of(posts)
    assert len({one.id, two.id, again.id}) == 3
    # Another row of this user may hold another part of their posts, at other places.
    (other,) = read_question(GOOD | {"profile": [{"id": None, "text": "two"}]}, subset="x").profile
    assert other.id == two.id


def test_whole_numbers_are_identifiers() -> None:
    row = GOOD | {"id": 1, "user_id": 2, "mirror_of": 3, "profile": [{**POST, "id": 4}]}
    pair = read_question(row, subset="x")
    assert (pair.id, pair.user_id, pair.mirror_of, pair.profile[0].id) == ("1", "2", "3", "4")


@pytest.mark.parametrize(
    "odd", [math.inf, b"\xff\xfe", HALF, datetime.date(2024, 1, 1), {"a": [math.inf]}]
)
def test_an_unknown_column_may_hold_anything_and_is_hashed(odd: object) -> None:
    pair = read_question(GOOD | {"odd": odd}, subset="x")
    assert pair.extra["odd"] is odd
    assert content_hash([pair]) == content_hash([pair])
    assert content_hash([pair]) != content_hash([read_question(GOOD, subset="x")])


@pytest.mark.parametrize("name", [name for name in GOOD if name != "user_id"])
def test_the_content_hash_knows_every_column(name: str) -> None:
    other = {
        "tie": True, "traits": {"age": 41}, "rating_scale": [1, 6], "chosen_rating": 4,
        "rejected_rating": 1, "profile": [], "rubric_aspects": [], "responses": [*FOUR, "5th"],
        "chosen_again": "Assam.",
    }.get(name, "other")  # fmt: skip
    good = GOOD | {"responses": [*FOUR]}
    if name in ("chosen", "rejected"):
        good["chosen_again"] = None
    changed = read_question(good | {name: other}, subset="x")
    assert content_hash([changed]) != content_hash([read_question(good, subset="x")])


def test_the_content_hash_knows_the_order_of_rows() -> None:
    one, two = read_question(GOOD, subset="x"), read_question(GOOD | {"id": "r9"}, subset="x")
    assert content_hash([one, two]) != content_hash([two, one])


# rows made of choices, and the split that every choice on a question falls into

SHARE = {"test_share": 0.3, "seed": 5}
WRITTEN = st.text(min_size=1).filter(str.strip)


def said(text: str) -> Message:
    return Message(role="user", content=text)


def test_a_share_of_questions_is_for_testing_and_a_larger_share_keeps_them():
    keys = [choice_key(f"Question {k}?") for k in range(4000)]
    tested = {
        share: {key for key in keys if split_of(key, test_share=share, seed=0) == "test"}
        for share in (0.0, 0.3, 0.5, 1.0)
    }
    assert (len(tested[0.0]), len(tested[1.0])) == (0, 4000)
    assert 1_110 < len(tested[0.3]) < 1_290  # three standard deviations
    assert tested[0.3] < tested[0.5]
    other = {key for key in keys if split_of(key, test_share=0.3, seed=1) == "test"}
    assert 0.2 < len(other & tested[0.3]) / 1_200 < 0.4, "seeds split anew"


@given(WRITTEN, st.sampled_from([" ", "\n", "\r\n ", "\u00a0", "\t"]))
def test_white_space_and_the_form_of_accents_change_no_split(text, blank):
    for other in (f"{blank}{text}{blank}", normalize("NFD", text), text.replace(" ", blank)):
        key = choice_key(other, [said(f"Né{blank}e")])
        assert key == choice_key(text, [said("Ne\u0301 e")])
        assert split_of(key, **SHARE) == split_of(choice_key(text, [said("Né e")]), **SHARE)


def test_turns_tell_questions_apart_but_not_how_messages_of_one_role_were_cut():
    assert choice_key("Tea?") != choice_key("Tea?", [Message(role="assistant", content="Hi.")])
    assert choice_key("Tea?", [said("Hi."), said("I am here.")]) == choice_key(
        "I am here.\n\nTea?", [said("Hi.")]
    )


def test_a_row_has_what_was_given_and_is_one_of_the_contract():
    row = choice_row(
        "ann", "Tea?", "Yes.", "No.", split="test", date="2026-11-27T10:00:00Z",
        turns=(said("Hello."),), category="drinks", traits={"age": "40"},
        responses=("Yes.", "No.", "Perhaps."), tie=True, id="r1",
    )  # fmt: skip
    pair = read_question(row, subset="all")
    assert (pair.id, pair.user_id, pair.text, pair.split) == ("r1", "ann", "Tea?", "test")
    assert (pair.turns, pair.tie, pair.traits) == ((said("Hello."),), True, {"age": "40"})
    assert row["turns"] == [{"role": "user", "content": "Hello."}]
    bare = [choice_row("ann", "Tea?", "Yes.", "No.", split="adapt", date="2026") for _ in "ab"]
    assert set(bare[0]) == {
        "id", "user_id", "question", "chosen", "rejected", "split", "date",
    }  # fmt: skip
    assert bare[0]["id"] != bare[1]["id"]


@pytest.mark.parametrize(
    ("change", "field"),
    [({"chosen": "No. "}, "chosen"), ({"question": " "}, "question"), ({"date": "9/30/17"}, "date"),
     ({"responses": ["Yes.", "Else."]}, "rejected"), ({"user": " "}, "user_id")],
)  # fmt: skip
def test_what_breaks_the_contract_names_its_field(change, field):
    usual = {"user": "ann", "question": "Tea?", "chosen": "Yes.", "rejected": "No."}
    with pytest.raises(DataError) as error:
        choice_row(**{**usual, "split": "adapt", "date": "2026", **change})
    assert error.value.field == field


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_what_is_no_share_is_one_line(share):
    with pytest.raises(UsageError, match=r"--test-share .*: expected a share, from 0 to 1"):
        split_of("Tea?", test_share=share, seed=0)
