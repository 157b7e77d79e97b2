"""The command: one line where it cannot serve, and an end after what waits at SIGTERM."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from palate.serve.server import listen

COMMAND = (sys.executable, "-m", "palate", "serve")
SLOW = """
import threading, time, sys
from palate.records import ScorerInfo, Scores
from palate.rewards import reward
from palate.serve.app import run_server

class Slow:
    info = ScorerInfo(fingerprint="slow")
    def score(self, slates):
        time.sleep(1)
        for k, slate in enumerate(slates):
            yield k, Scores(values=tuple(map(float, map(len, slate.candidates))))

run_server(lambda: reward(Slow(), "none", benchmark="tasting"), "slow", port=0,
      listening=lambda url: print(url, file=sys.stderr, flush=True))
print("ended")
"""


def started(*words, **env):
    process = subprocess.Popen(
        words, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1", **env},
    )  # fmt: skip
    line = process.stderr.readline()
    return process, int(re.search(r"http://127\.0\.0\.1:(\d+)", line)[1]), line


def ask(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    sent = None if body is None else json.dumps(body)
    connection.request(method, path, sent, {"Content-Type": "application/json", **(headers or {})})
    reply = connection.getresponse()
    return reply.status, json.loads(reply.read())


def ready(port):
    for _ in range(1200):
        try:
            if ask(port, "GET", "/readyz")[0] == 200:
                return
        except ConnectionError:
            pass
        time.sleep(0.1)
    raise AssertionError("never ready")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_finishes_what_waits_and_is_exit_0(number):
    process, port, _ = started(sys.executable, "-c", SLOW)
    ready(port)

    def score(n):
        body = {
            "items": [{"user": "u", "question": "Q?", "traits": {"a": "b"}, "response": "x" * n}]
        }
        return ask(port, "POST", "/score", body)

    with ThreadPoolExecutor(8) as go:
        asked = [go.submit(score, n) for n in range(1, 9)]
        time.sleep(0.5)
        process.send_signal(number)
        replies = [each.result() for each in asked]
    assert [reply["items"][0]["scores"] for _, reply in replies] == [
        [float(n)] for n in range(1, 9)
    ]
    assert process.communicate(timeout=60)[0] == "ended\n"
    assert process.returncode == 0


def test_the_command_serves_and_keeps_feedback_that_adapt_reads(tmp_path):
    path = tmp_path / "f.jsonl"
    process, port, line = started(
        *COMMAND, "-s", "longest", "-c", "none", "-b", "tasting", "--port", "0", "--feedback",
        str(path), "--key-env", "MINE", MINE="s3cr3t",
    )  # fmt: skip
    assert line.startswith("palate: longest · none · tasting at http://127.0.0.1:")
    key = {"Authorization": "Bearer s3cr3t"}
    try:
        ready(port)
        choice = {"user": "ann", "question": "Tea?", "responses": ["Yes.", "No."], "chosen": 0}
        assert ask(port, "POST", "/feedback", choice)[0] == 401
        assert ask(port, "POST", "/feedback", choice, key)[0] == 201
    finally:
        process.kill()  # no time to write anything more
        out, said = process.communicate(timeout=60)
    assert "s3cr3t" not in line + out + said
    (row,) = map(json.loads, path.read_text().splitlines())
    assert (row["user_id"], row["split"], row["chosen"]) == ("ann", "adapt", "Yes.")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("-s", "longst"), "did you mean longest?"),
        (("-s", "judge:./none", "-b", "tasting"), "none"),
        (("-s", "longest", "-c", "rubric", "-b", "tasting"), "reads gold"),
        (("-s", "mix:mix.toml", "-b", "tasting"), "weights are learnt where data are evaluated"),
        (("-s", "longest", "-b", "nowhere"), "unknown benchmark 'nowhere'"),
        (("-s", "longest", "--key-env", "NO_SUCH_KEY"), "--key-env NO_SUCH_KEY: the variable is n"),
        (("-s", "longest", "--feedback", "x.txt"), "--feedback x.txt: a file of feedback ends in"),
        (("-s", "longest", "--host", "192.0.2.1"), "--host 192.0.2.1 --port 0: cannot listen"),
    ],
)
def test_what_cannot_be_served_is_one_line_and_exit_2(words, says, tmp_path):
    (tmp_path / "mix.toml").write_text('members = ["longest", "random"]\n')
    done = subprocess.run(
        (*COMMAND, "--port", "0", *words), text=True, capture_output=True, timeout=300, check=False,
        cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    said = [line for line in done.stderr.splitlines() if " at http://127.0.0.1:" not in line]
    assert len(said) == 1, done.stderr
    assert says in said[0]


def test_a_port_that_is_taken_is_one_line_and_exit_2():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            (*COMMAND, "-s", "longest", "--port", port), text=True, capture_output=True,
            timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert f"--port {port}: cannot listen there (Address already in use" in done.stderr


def test_connections_send_without_waiting_for_acknowledgements():
    with listen("127.0.0.1", 0) as sock, socket.create_connection(sock.getsockname()):
        accepted, _ = sock.accept()
        with accepted:
            assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
