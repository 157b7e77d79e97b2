"""Who may ask, how much may be sent, and what is no request at all."""

from __future__ import annotations

import http.client
import json
import logging
import socket

import pytest
from serving import Coded, Served, coded

from palate.errors import UsageError
from palate.serve.app import MAX_BODY, ServeSettings
from palate.serve.server import read_key

ITEM = {"items": [{"row": "ann-0", "response": "1"}]}
TOO_LONG = {"detail": "the body is over 8 MiB; send less in one request"}
POSTS = ("/score", "/get_reward", "/classify", "/pooling", "/predict", "/feedback")


@pytest.fixture(scope="module")
def server():
    with Served(coded(Coded()), ServeSettings(key="s3cr3t-key")) as served:
        yield served


def bearer(text="Bearer s3cr3t-key"):
    return {"Authorization": text}


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer s3cr3t-ke", "Bearer s3cr3t-key2", "Basic s3cr3t-key",
     "s3cr3t-key", "Bearer S3CR3T-KEY", "Bearer \xe9"],
)  # fmt: skip
def test_a_wrong_token_is_401(server, header):
    for method, path in (("POST", "/score"), ("GET", "/metrics"), ("GET", "/openapi.json")):
        sent = bearer(header) if header else {}
        status, reply, headers = server.call(method, path, ITEM, sent)
        assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
        assert "s3cr3t" not in str(reply)


def test_the_token_is_let_in_and_probes_need_none(server):
    assert server.post("/score", ITEM, **bearer())[0] == 200
    assert server.post("/score", ITEM, **bearer("bearer s3cr3t-key"))[0] == 200
    assert [server.call("GET", path)[0] for path in ("/healthz", "/readyz")] == [200, 200]


def test_no_token_is_refused_before_the_body_is_read(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as wire:
        wire.sendall(b"POST /score HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n{")
        assert wire.recv(100).startswith(b"HTTP/1.1 401")


def test_the_token_is_read_from_the_environment(monkeypatch):
    assert read_key(None) is None
    monkeypatch.setenv("MINE", "abc")
    assert read_key("MINE") == "abc"
    for wrong in ("", "a b", "\xe9", "a\n"):
        monkeypatch.setenv("MINE", wrong)
        with pytest.raises(UsageError, match="--key-env MINE"):
            read_key("MINE")
    with pytest.raises(UsageError, match="--key-env NONE: the variable is not set"):
        read_key("NONE")


def padded(n):
    start = b'{"items":[{"row":"ann-0","response":"1'
    return start + b" " * (n - len(start) - 4) + b'"}]}'


def test_a_body_may_have_8_mib_and_no_more(server):
    assert server.post("/score", padded(MAX_BODY), **bearer())[0] == 200
    assert server.post("/score", padded(MAX_BODY + 1), **bearer()) == (413, TOO_LONG)


def test_a_chunked_body_has_the_same_limit(server):
    def chunks(n):
        body = padded(n)
        return (body[k : k + 2**20] for k in range(0, n, 2**20))

    sent = {**bearer(), "Transfer-Encoding": "chunked"}
    for n, expected in ((MAX_BODY, 200), (MAX_BODY + 1, 413)):
        status, reply, _ = server.call("POST", "/score", chunks(n), sent, encode_chunked=True)
        assert status == expected
        assert expected == 200 or reply == TOO_LONG
    metrics = server.call("GET", "/metrics", headers=bearer())[1]
    assert 'palate_requests_total{path="/score",status="413"}' in metrics
    assert server.post("/score", ITEM, **bearer())[0] == 200, "serving goes on"


def test_a_body_that_is_declared_too_long_is_refused_unread(server):
    head = f"POST /score HTTP/1.1\r\nHost: x\r\nAuthorization: {bearer()['Authorization']}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as wire:
        wire.sendall(head.encode())
        reply = http.client.HTTPResponse(wire)
        reply.begin()
        assert (reply.status, json.loads(reply.read())) == (413, TOO_LONG)


NAN = ('{"items":[{"row":"ann-0","response":NaN}]}', 422, "items[0].response: ")
NOT_JSON = [
    ("{", 400, "the body is not JSON"),
    ("", 422, "body: Field required"),
    ("null", 422, "body: "),
    ('{"items": [}', 400, "the body is not JSON"),
    (b"\xff", 400, ""),
    ("[" * 100_000, 400, ""),
    ('{"items":' + "9" * 5000 + "}", 400, ""),
    NAN,
    ('{"items":[{"row":NaN,"response":"1"}]}', 422, "items[0].row: "),
    ('{"items":[{"row":"ann-0","response":"1","x":Infinity}]}', 422, "items[0].x: "),
    ('{"items":[{"row":"ann-0","response":"\\ud800"}]}', 422, "items[0].response: "),
]


@pytest.mark.parametrize(("body", "status", "says"), NOT_JSON)
def test_what_is_no_json_is_refused(server, body, status, says):
    got, reply = server.post("/score", body, **bearer())
    assert (got, list(reply)) == (status, ["detail"])
    assert says in reply["detail"]


def test_a_form_of_a_web_page_is_no_request(server):
    """A page may send text/plain anywhere without asking; JSON it may not."""
    plain = {**bearer(), "Content-Type": "text/plain"}
    assert server.post("/score", json.dumps(ITEM), **plain)[0] == 422


def test_texts_never_come_back_in_an_error(server):
    for path in POSTS:
        _, reply = server.post(path, {"items": "a secret", "query": "a secret"}, **bearer())
        assert "secret" not in reply["detail"]


def test_other_paths_and_methods_are_no_new_series(server):
    assert server.call("GET", "/nowhere", headers=bearer())[:2] == (404, {"detail": "Not Found"})
    assert server.call("GET", "/score", headers=bearer())[0] == 405
    assert server.call("GET", "/docs", headers=bearer())[0] == 404
    assert server.post("/feedback", {}, **bearer())[0] == 422
    metrics = server.call("GET", "/metrics", headers=bearer())[1]
    assert 'palate_requests_total{path="other",status="404"}' in metrics
    assert 'palate_requests_total{path="/score",status="405"} 1.0' in metrics
    assert "/nowhere" not in metrics
    assert "palate_waiting_answers 0.0" in metrics


def test_an_error_of_the_server_itself_is_json_too(monkeypatch):
    with Served(coded(Coded())) as served:

        def broken():
            raise ValueError("of a secret text")

        monkeypatch.setattr(served.service.metrics, "text", broken)
        status, reply, headers = served.call("GET", "/metrics")
    assert (status, reply) == (500, {"detail": "the server failed: ValueError"})
    assert headers["Content-Type"] == "application/json"


def test_an_error_of_the_scorer_is_in_the_log_and_its_text_in_no_reply(caplog):
    with Served(coded(Coded())) as served, caplog.at_level(logging.DEBUG):
        body = {"items": [{"row": "ann-0", "response": "broken"}]}
        assert served.post("/score", body)[1] == {"detail": "the scorer failed: ValueError"}
    assert any("a batch of 1 answers failed" in it.message for it in caplog.records)
