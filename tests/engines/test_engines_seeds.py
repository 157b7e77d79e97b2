"""A server that takes no seed is asked without; its samples are others by name."""

from __future__ import annotations

import json

import pytest

from endpoints import Loopback
from palate.answers import build_policy, draw_prompts
from palate.records import Message, Settings
from palate.session import Session

PROMPTS = [(Message(role="user", content=f"A or B, {k}?"),) for k in range(3)]
REFUSALS = [
    (400, {"message": "unrecognized argument: seed"}),
    (422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"],
                       "msg": "Extra inputs are not permitted", "input": 7}]}),
    (422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden",
           "loc": ["body", "seed"], "msg": "Extra inputs are not permitted"}]}}),
    (400, {"error": {"message": "body -> seed\n  extra fields not permitted"}}),
    (400, {"error": {"message": "This model does not support seed.", "param": None}}),
    (400, {"error": {"message": "no", "param": "seed"}}),
]  # fmt: skip


class Server:
    def __init__(self, refusal, takes_n=True):
        self.turn = 0

        def answer(path, body):
            if "seed" in body:
                return refusal
            if body.get("n", 1) > 1 and not takes_n:
                return 400, {"error": {"message": "n must be 1", "param": "n"}}
            choices = []
            for _ in range(body.get("n", 1)):
                self.turn += 1
                message = {"content": f"Tea {self.turn}"}
                choices.append({"message": message, "finish_reason": "stop"})
            return 200, {"choices": choices}

        self.loopback = Loopback(answer)

    def draw(self, place, n=2):
        with Session(store=place / "s", cache=place / "c") as session:
            spec = f"api:m?base_url={self.loopback.url}/v1&concurrency=1"
            policy = build_policy(spec, session, Settings())
            drawn = draw_prompts(policy, PROMPTS, n, session.store)
            return policy, [[one[k].text for k in range(n)] for one in drawn]


@pytest.mark.parametrize("refusal", REFUSALS)
def test_samples_are_drawn_without_a_seed_that_is_refused(tmp_path, caplog, refusal):
    server = Server(refusal)
    with server.loopback as there:
        before = build_policy(f"api:m?base_url={there.url}/v1", Session(), Settings()).fingerprint
        policy, first = server.draw(tmp_path)
        with_seed = sum("seed" in body for _, body in there.seen)
        asked = len(there.seen)
        again, second = server.draw(tmp_path)
        assert len(there.seen) == asked, "what was drawn is kept, under its own identity"
        server.draw(tmp_path, n=3)
        assert sum("seed" in body for _, body in there.seen) == with_seed <= 3
    assert sorted(it for texts in first for it in texts) == [f"Tea {k}" for k in range(1, 7)]
    assert second == first
    assert policy.fingerprint == again.fingerprint != before
    assert caplog.text.count("refuses seed, and samples are drawn without") == 1


def test_where_n_is_refused_too_equal_requests_have_replies_of_their_own(tmp_path):
    server = Server(REFUSALS[0], takes_n=False)
    with server.loopback:
        _, drawn = server.draw(tmp_path, n=3)
    assert len({it for texts in drawn for it in texts}) == 9, (
        "no sample is another's reply from the cache"
    )


def test_many_refusals_at_once_end_nothing(tmp_path):
    server = Server(REFUSALS[0])
    with server.loopback as there, Session(store=tmp_path) as session:
        policy = build_policy(f"api:m?base_url={there.url}/v1", session, Settings())
        prompts = [(Message(role="user", content=f"{k}?"),) for k in range(60)]
        drawn = draw_prompts(policy, prompts, 2, session.store)
    assert all(one[k].text for one in drawn for k in range(2))
    assert sum("seed" in body for _, body in there.seen) <= 20


def test_a_seed_that_is_taken_is_sent_and_the_identity_is_as_before(tmp_path):
    def answer(path, body):
        choices = [{"message": {"content": json.dumps(body["seed"])}, "finish_reason": "stop"}]
        return 200, {"choices": choices * body.get("n", 1)}

    with Loopback(answer) as there, Session(store=tmp_path) as session:
        policy = build_policy(f"api:m?base_url={there.url}/v1", session, Settings())
        before = policy.fingerprint
        draw_prompts(policy, PROMPTS, 1, session.store)
        assert policy.fingerprint == before
        assert all("seed" in body for _, body in there.seen)
