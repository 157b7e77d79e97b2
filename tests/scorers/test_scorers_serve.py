"""A judge on a real OpenAI-compatible server: `transformers serve` on the loopback."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from palate.engines import Ask, ChatEndpoint, HttpSettings, read_completion
from palate.errors import EndpointError
from palate.records import Message, Outcome
from palate.scorers import build_scorer
from palate.session import default_session
from tiny import make_slate

SLATES = [
    make_slate("Green tea.", "Black coffee.", question="Which drink helps me sleep?"),
    make_slate("By train.", "By plane.", question="How do I get from Leeds to York?"),
]


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


@pytest.fixture(scope="session")
def served(tiny, tmp_path_factory):
    """The base URL and the model's name, which is the folder it was loaded from."""
    port, log = free_port(), tmp_path_factory.mktemp("serve") / "log"
    command = [str(Path(sys.executable).parent / "transformers"), "serve", str(tiny.smol)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    environment = {**os.environ, "OMP_WAIT_POLICY": "PASSIVE", "HF_HUB_OFFLINE": "1"}
    with log.open("w") as stream:
        process = subprocess.Popen(
            [*command, "--dtype", "float32"],
            env=environment,
            stdout=stream,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        until = time.monotonic() + 120
        while True:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            with contextlib.suppress(httpx2.TransportError):
                if httpx2.get(f"http://127.0.0.1:{port}/health", timeout=5).status_code == 200:
                    break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1", str(tiny.smol)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(15)


def spec(kind, served, options=""):
    url, model = served
    return f"{kind}:api:{model}?base_url={url}&concurrency=1&timeout=60{options}"


def test_a_judge_reads_verdicts_or_says_why_not(served):
    judge = build_scorer(spec("judge", served, "&max_tokens=8"), default_session())
    found = dict(judge.judge(SLATES))
    assert sorted(found) == [0, 1]
    for judgement in found.values():
        outcome = judgement.verdict(0).outcome
        assert len(judgement.orders) == 2
        assert all(judgement.raw), "the server said something"
        assert not judgement.outage
        assert (outcome is Outcome.UNSCORED) == (judgement.margin is None)
        if judgement.margin is None:
            assert judgement.reason.startswith(("unreadable", "cut off"))


def test_the_server_ignores_logprobs_and_the_judge_notices(served):
    url, model = served
    body = {"model": model, "max_tokens": 1, "logprobs": True, "top_logprobs": 20}
    body["messages"] = [{"role": "user", "content": "Answer A or B."}]
    reply = httpx2.post(f"{url}/chat/completions", json=body, timeout=60)
    assert reply.status_code == 200
    assert not reply.json()["choices"][0].get("logprobs"), "it has learned: use verdict=logits"
    judge = build_scorer(spec("judge", served, "&verdict=logits"), default_session())
    with pytest.raises(EndpointError, match="no log-probabilities came back") as caught:
        list(judge.judge(SLATES))
    assert caught.value.exit_code == 3


def test_a_model_the_server_does_not_hold_is_unscored_with_the_reason(served):
    rating = build_scorer(
        spec("rating", (served[0], "no/such-model"), "&max_tokens=8"), default_session()
    )
    ((_, found),) = rating.score(SLATES[:1])
    assert found.values == (None, None)
    assert set(found.reasons) == {"HTTP 400"}
    assert not found.outage


def test_a_long_reply_is_streamed_and_reads_as_in_one_piece(served):
    url, model = served
    prompt = "Say hello."
    body = {"model": model, "max_tokens": 128, "temperature": 0}
    body["messages"] = [{"role": "user", "content": prompt}]
    (whole,) = read_completion(
        httpx2.post(f"{url}/chat/completions", json=body, timeout=120).raise_for_status().json()
    )
    endpoint = ChatEndpoint(HttpSettings(model=model, base_url=url))
    ((_, streamed),) = endpoint.ask([Ask((Message(role="user", content=prompt),), 128)])
    assert streamed.failure is None
    assert streamed.text == whole.text != ""
    assert endpoint.client.ledger.ways == {}, "it came as a stream, though without [DONE]"
    assert endpoint.client.ledger.requests == 1
