"""Earlier turns in a request: to every format that has a place for them."""

from __future__ import annotations

import json

import pytest
from serving import Coded, Served, coded, rows

import palate
from conversations import QUESTION, TURNS
from palate.records import Scores
from palate.serve.app import ServeSettings
from palate.serve.feedback import FeedbackFile

HI = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Yes?"}]


class Roles(Coded):
    """A number for each conversation: 10 a message, and the parts that are shown."""

    def _scores(self, slate):
        value = 10.0 * len(slate.question) + len(slate.shown)
        return Scores(values=(value,) * len(slate.candidates))


@pytest.fixture(scope="module")
def server():
    reward = palate.reward(Roles(), "profile:5", benchmark=rows())
    with Served(lambda: reward) as served:
        yield served


def test_a_question_of_a_user_brings_its_turns(server):
    one = {"user": "ann", "question": QUESTION, "response": "Tea."}
    new = {**one, "user": "dan", "profile": [{"text": "hot tea"}]}
    items = [one, {**one, "turns": TURNS}, {**new, "turns": HI}, new]
    status, reply = server.post("/score", {"items": items})
    assert status == 200
    assert [it["scores"] for it in reply["items"]] == [[12.0], [42.0], [31.0], [11.0]]


def test_a_post_that_holds_a_turn_is_left_out(server):
    told = {"text": f"Again: {TURNS[1]['content']}"}
    item = {"user": "dan", "question": QUESTION, "turns": TURNS, "response": "Tea.",
            "profile": [told, {"text": "hot tea"}]}  # fmt: skip
    assert server.post("/score", {"items": [item]})[1]["items"][0]["scores"] == [41.0]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"turns": [{"role": "tool", "content": "?"}]}, "items[0].turns[0].role: "),
        ({"turns": [{"role": "user", "content": " "}]}, "items[0].turns[0].content: "),
        ({"turns": [HI[0], TURNS[0]]}, "items[0].turns[1].role: only the first turn"),
        ({"turns": "Hi."}, "items[0].turns: "),
    ],
)
def test_turns_that_are_none_are_refused(server, change, says):
    item = {"user": "ann", "question": QUESTION, "response": "Tea."}
    status, reply = server.post("/score", {"items": [item | change]})
    assert status == 422 and says in reply["detail"]


def test_a_row_brings_its_own_turns(server):
    status, reply = server.post("/score", {"items": [
        {"row": "ann-0", "turns": HI, "response": "Tea."},
    ]})  # fmt: skip
    assert status == 422 and "a row brings its own" in reply["detail"]


def test_vllms_clients_send_a_users_conversation(server):
    asked = {"role": "user", "content": QUESTION}
    said = {"role": "assistant", "content": "Tea."}
    for before, value in ((HI, 32.0), (TURNS, 42.0), ([], 12.0)):
        body = {"messages": [*before, asked, said], "user": "ann"}
        status, reply = server.post("/classify", body)
        assert (status, reply["data"][0]["probs"]) == (200, [value])
    status, reply = server.post("/classify", {"messages": [*HI, said], "user": "ann"})
    assert status == 422 and "a question of theirs before the response" in reply["detail"]
    body = {"messages": [HI[0], TURNS[0], asked, said], "user": "ann"}
    status, reply = server.post("/classify", body)
    assert status == 422 and "only the first turn" in reply["detail"]


def test_what_a_user_chose_keeps_its_turns(tmp_path):
    path = tmp_path / "feedback.jsonl"
    settings = ServeSettings(feedback=FeedbackFile(path))
    choice = {"user": "ann", "question": QUESTION, "responses": ["a", "b"], "chosen": 0}
    with Served(coded(Coded()), settings) as served:
        assert served.post("/feedback", {**choice, "turns": HI})[0] == 201
        assert served.post("/feedback", choice)[0] == 201
        status, reply = served.post("/feedback", {**choice, "turns": [HI[0], TURNS[0]]})
        assert status == 422 and "turns[1].role" in reply["detail"]
    first, second = (json.loads(line) for line in path.read_text().splitlines())
    assert first["turns"] == HI and "turns" not in second
