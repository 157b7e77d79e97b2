"""Requests written instead of sent: how files fill, embeddings, what no batch takes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from endpoints import Loopback
from palate.embeddings import build_features, plain_item
from palate.engines import reply_cache as files
from palate.engines.chat_endpoint import Ask, ChatEndpoint
from palate.engines.http_requests import NOT_SENT, HttpSettings, NotSent, body_of
from palate.errors import UsageError
from palate.records import Message, Settings
from palate.session import Session

ROOT, CHAT = "http://127.0.0.1:9/v1/", "chat/completions"


def lines(path):
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


@given(
    st.lists(st.tuples(st.sampled_from("mn"), st.integers(0, 9), st.text(max_size=9)), max_size=40)
)
def test_every_request_is_in_one_file_once_and_no_file_is_too_full(tmp_path_factory, asked):
    folder = tmp_path_factory.mktemp("files")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(files, "MOST_INPUTS", 4)
        patched.setattr(files, "MOST_BYTES", 600)
        with files.RequestFile(folder / "a.b.jsonl") as requests:
            for model, number, text in asked:
                body = body_of({"model": model, "messages": [str(number), text]})
                requests.add(f"{number:032x}{ord(model):032x}", ROOT, CHAT, body)
    names = ["a.b.jsonl", *(f"a.b-{k}.jsonl" for k in range(2, len(requests.batches) + 1))]
    assert sorted(it.name for it in folder.iterdir()) == sorted(names[: len(requests.batches)])
    written = []
    for batch in requests.batches:
        inside = lines(batch.path)
        assert 1 <= len(inside) == batch.requests <= 4
        assert batch.path.stat().st_size <= 600
        assert {f"{it['body']['model']} at {ROOT}{CHAT}" for it in inside} == {batch.asks}
        written += inside
    first = {}
    for model, number, text in asked:
        first.setdefault((model, number), text)
    assert {(it["body"]["model"], int(it["body"]["messages"][0])): it["body"]["messages"][1]
            for it in written} == first  # fmt: skip
    assert len(written) == len(first)


def test_the_limits_are_those_that_providers_have(tmp_path):
    assert (files.MOST_INPUTS, files.MOST_BYTES) == (50_000, 190_000_000)
    with files.RequestFile(tmp_path / "e.jsonl") as requests:
        for k in range(26):
            body = body_of({"model": "m", "input": ["text"] * 2000, "k": k})
            requests.add(f"{k:064x}", ROOT, "embeddings", body)
    assert [(it.requests, it.inputs) for it in requests.batches] == [(25, 50_000), (1, 2000)]


def test_an_error_leaves_the_files_as_they_were(tmp_path):
    path = tmp_path / "e.jsonl"
    with files.RequestFile(path) as requests:
        requests.add("ab" * 32, ROOT, CHAT, b'{"model":"m"}')
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError), files.RequestFile(path) as requests:
        requests.add("cd" * 32, ROOT, CHAT, b'{"model":"m"}')
        raise ZeroDivisionError
    assert path.read_bytes() == before
    assert [it.name for it in tmp_path.iterdir()] == ["e.jsonl"]
    with (
        pytest.raises(UsageError, match="no batch takes that"),
        files.RequestFile(path) as requests,
    ):
        requests.add("cd" * 32, ROOT, "completions", b'{"model":"m"}')
    (tmp_path / "e-2.jsonl").write_text('{"id": 1}')
    with pytest.raises(UsageError, match=r"e-2\.jsonl"), files.RequestFile(path) as requests:
        for k, model in enumerate("mn"):
            requests.add(f"{k:064x}", ROOT, CHAT, body_of({"model": model}))
    assert path.read_bytes() == before


def test_a_chat_that_is_written_is_an_outage_and_nothing_leaves(tmp_path):
    def nobody(path, body):
        raise AssertionError(path)

    with Loopback(nobody) as there, Session(cache=tmp_path / "c") as session:
        settings = HttpSettings(model="m", base_url=f"{there.url}/v1")
        endpoint = ChatEndpoint(settings, replies=session.replies)
        asks = [Ask((Message(role="user", content=f"{k}\u2028?"),), 200) for k in range(3)]
        with files.RequestFile(tmp_path / "r.jsonl") as session.replies.requests:
            replies = dict(endpoint.ask(asks))
    assert {(it.failure, it.outage) for it in replies.values()} == {(NOT_SENT, True)}
    assert not there.seen
    contents = {it["body"]["messages"][0]["content"] for it in lines(tmp_path / "r.jsonl")}
    assert contents == {"0\u2028?", "1\u2028?", "2\u2028?"}


def embedding(path, body):
    rows = [[float(len(text)), 1.0, 0.0] for text in body["input"]]
    return {"data": [{"index": k, "embedding": row} for k, row in enumerate(rows)]}


def test_embeddings_are_written_all_and_read_from_their_replies(tmp_path: Path) -> None:
    items = [plain_item("", "x" * (k + 1)) for k in range(600)]
    spec = "api:m?base_url=http://127.0.0.1:9/v1"
    sizes = []
    for _ in range(3):
        with Session(cache=tmp_path / "c", store=tmp_path / "s") as session:
            features = build_features([spec], session, Settings())
            assert session.replies is not None
            with files.RequestFile(tmp_path / "r.jsonl") as session.replies.requests:
                try:
                    table = features.table(items)
                except NotSent:
                    table = np.empty(0)
            asked = lines(tmp_path / "r.jsonl") if session.replies.requests.batches else []
            assert {it["url"] for it in asked} <= {"/v1/embeddings"}
            sizes.append(sorted(len(it["body"]["input"]) for it in asked))
            for it in asked:
                session.replies.put(it["custom_id"], body_of(embedding(it["url"], it["body"])))
    assert sizes == [[1], [24] + [32] * 18, []], "the width, the texts, nothing"
    assert table[:, 0].tolist() == [float(k + 1) for k in range(600)]
