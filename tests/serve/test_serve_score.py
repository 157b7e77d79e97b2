"""palate's own format: rows, users in the call and users of the data; a reason for every gap."""

from __future__ import annotations

import pytest
from serving import Coded, Served, coded, rows

import palate
from palate.records import Post, User
from palate.rewards import EMPTY
from palate.serve.app import ServeSettings


class Words(Coded):
    """Counts the response's words that are shown."""

    def _scores(self, slate):
        known = {word for part in slate.shown for word in part.text.lower().split()}
        values = tuple(float(sum(w in known for w in t.lower().split())) for t in slate.candidates)
        return palate.Scores(values=values)


@pytest.fixture(scope="module")
def server():
    with Served(coded(Coded()), ServeSettings(max_waiting=50)) as served:
        yield served


def test_rows_get_their_numbers_and_gaps_their_reasons(server):
    items = [{"row": "bob-0", "responses": ["a 7", "no", " "]}, {"row": "ann-1", "response": "5"}]
    assert server.post("/score", {"items": items}) == (200, {"items": [
        {"scores": [20_007.0, None, None], "reasons": [None, "no number", EMPTY]},
        {"scores": [10_005.0], "reasons": [None]},
    ]})  # fmt: skip


def test_users_bring_their_posts_or_are_known_and_no_post_holds_the_question():
    reward = palate.reward(Words(), "profile:5", benchmark=rows())
    dan = {"user": "dan", "question": "Drink?", "profile": [{"text": "hot tea"}, {"text": "milk"}]}
    with Served(lambda: reward) as served:
        status, reply = served.post("/score", {"items": [
            {**dan, "responses": ["hot milk", "juice"]},
            {"user": "ann", "question": "Which of 0?", "response": "asked water i"},
            {"user": "ann", "question": "And now?", "response": "asked water i"},
        ]})  # fmt: skip
    assert status == 200
    live = User(id="dan", posts=(Post(id="1", text="hot tea"), Post(id="2", text="milk")))
    expected = [reward("Drink?", text, live).value for text in ("hot milk", "juice")]
    assert [item["scores"] for item in reply["items"]] == [expected, [1.0], [3.0]]
    assert expected == [2.0, 0.0]


BAD = [
    ({"items": [{"row": "dan-0", "response": "1"}]}, 404, "items[0].row: no row 'dan-0'"),
    ({"items": [{"user": "eve", "question": "1?", "response": "1"}]}, 404, "no user 'eve'"),
    ({"items": []}, 422, "items: "),
    ({"items": {}}, 422, "items: "),
    ({}, 422, "items: Field required"),
    ([], 422, "body: "),
    ({"items": [{"row": "ann-0"}]}, 422, "items[0]: Value error, expected `response`"),
    ({"items": [{"row": "ann-0", "responses": []}]}, 422, "`responses` with one or more"),
    ({"items": [{"row": "ann-0", "response": "1", "responses": ["2"]}]}, 422, "items[0]: "),
    ({"items": [{"row": "ann-0", "user": "ann", "response": "1"}]}, 422, "its own user"),
    ({"items": [{"user": "ann", "response": "1"}]}, 422, "expected `row`, or `user` and"),
    ({"items": [{"row": "ann-0", "response": 3}]}, 422, "items[0].response: expected text"),
    ({"items": [{"row": "ann-0", "responses": [1, 2]}]}, 422, "items[0].responses: expected text"),
    ({"items": [{"row": "ann-0", "response": None}]}, 422, "items[0]: "),
    ({"items": [{"row": ["x"], "response": "1"}]}, 422, "items[0].row: "),
    ({"items": [{"row": "ann-0", "response": "\ud800"}]}, 422, "items[0].response: "),
    ({"items": [{"row": "ann-0", "response": "1", "\ud800": 1}]}, 422, "items[0]: Input should be"),
    ({"items": [{"user": "d", "question": "Tea?", "response": "1",
                 "profile": [{"text": " Tea? "}]}]}, 422, "items[0].profile[0].text: the post"),
    ({"items": [{"user": "d", "question": "Tea?", "response": "1", "profile": [{"text": " "}]}]},
     422, "items[0].profile[0].text: expected text"),
    ({"items": [{"user": "d", "question": "Tea?", "response": "1", "traits": {"age": 3}}]},
     422, "items[0].traits.age: "),
    ({"items": [{"row": "ann-0", "responses": ["1"] * 51}]}, 422, "51 answers in one request"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "says"), BAD)
def test_what_is_wrong_is_named(server, body, status, says):
    got, reply = server.post("/score", body)
    assert (got, list(reply)) == (status, ["detail"])
    assert says in reply["detail"]


def test_a_row_may_be_named_by_a_whole_number_as_in_the_row_contract():
    data = palate.Dataset.from_rows(
        "n", [{"id": 7, "question": "Tea 1?", "chosen": "a", "rejected": "b"}]
    )
    with Served(lambda: palate.reward(Coded(), "none", benchmark=data)) as served:
        _, reply = served.post("/score", {"items": [{"row": 7, "response": "2"}]})
        assert reply["items"][0]["scores"] == [10_002.0]
        assert served.post("/score", {"items": [{"row": True, "response": "2"}]})[0] == 422


def test_a_user_without_what_the_context_shows_is_refused_alone():
    with Served(coded(Words(), "profile:1")) as served:
        bare = {"user": "dan", "question": "Tea?", "traits": {"age": "3"}, "response": "1"}
        status, reply = served.post("/score", {"items": [bare]})
        assert (status, "user 'dan' has no posts" in reply["detail"]) == (422, True)
