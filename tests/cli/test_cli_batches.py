"""Judges asked by files: requests are written, replies are kept, and the run is a live one's."""

from __future__ import annotations

import gzip
import hashlib
import json

import pytest

from command_line import palate, write_rows
from endpoints import Loopback

KEY = "sk-very-secret-0123456789"
DEAD = "http://127.0.0.1:9/v1"


def completion(text):
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    return {"choices": [{**choice, "finish_reason": "stop"}], "usage": {"prompt_tokens": 0}}


def in_one_piece(body):
    return json.dumps({k: v for k, v in body.items() if "stream" not in k}, sort_keys=True)


def answer(path, body):
    """Answer by a hash of the request alone: a verdict to who judges, else a persona."""
    digest = hashlib.sha256(in_one_piece(body).encode()).digest()
    if "Verdict" not in body["messages"][-1]["content"]:
        return 200, completion(f"Someone who likes number {digest[1]}.")
    return 200, completion(f"Verdict: {('A', 'B', 'tie')[digest[0] % 3]}")


def read(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def reply(request, status=200, body=None):
    said = answer(request["url"], request["body"])[1] if body is None else body
    response = {"status_code": status, "request_id": "r", "body": said}
    return {"id": "b", "custom_id": request["custom_id"], "response": response, "error": None}


def outcome(root):
    (summary,) = root.rglob("summary.json")
    return summary.read_bytes(), (summary.parent / "rows.jsonl").read_bytes()


def run(tmp_path, *words, code=0):
    done = palate(*words, cwd=tmp_path, PALATE_API_KEY=KEY, PALATE_CACHE=str(tmp_path / "store"))
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture
def votes(tmp_path):
    rows = [
        {"id": k, "user_id": f"u{k}", "question": f"Which, {k}?", "chosen": "tea" * (k + 1),
         "rejected": "milk\u2028é" * (9 - k), "profile": [f"I drink {k}.", f"Never {k + 1}."]}
        for k in range(3)
    ]  # fmt: skip
    return write_rows(tmp_path / "votes.jsonl", rows)


def test_a_run_by_files_is_that_of_a_live_run_byte_for_byte(tmp_path):
    with Loopback(answer) as there:
        words = ("evaluate", "-b", "tasting", "-c", "profile:3", "-s",
                 f"judge:api:m?base_url={there.url}/v1")  # fmt: skip
        files = (*words, "--cache", "replies", "-o", "by_files")
        said = run(tmp_path, *files, "--requests", "judge.jsonl").stdout
        assert said.count("\n") == 1
        assert f"192 requests in judge.jsonl (m at {there.url}/v1/chat/completions); 0 from" in said
        assert not there.seen
        assert not there.listed
        assert not (tmp_path / "by_files").exists(), "no run is written"
        asked = read(tmp_path / "judge.jsonl")
        assert len({it["custom_id"] for it in asked}) == len(asked) == 192
        assert {(it["method"], it["url"]) for it in asked} == {("POST", "/v1/chat/completions")}
        assert not any("stream" in it["body"] for it in asked)

        failed = [it["custom_id"] for it in asked[::10]]
        came = [reply(it, *([500, {}] if it["custom_id"] in failed else [])) for it in asked[::-1]]
        kept = run(
            tmp_path, "replies", write_rows(tmp_path / "out.jsonl", came), "--cache", "replies"
        )
        assert kept.stdout == "kept in replies: 172; without a reply: 20 HTTP 500\n"
        again = run(tmp_path, *files, "--requests", "judge.jsonl").stdout
        assert "20 requests in judge.jsonl" in again
        assert {it["custom_id"] for it in read(tmp_path / "judge.jsonl")} == set(failed)
        assert not there.seen

        run(tmp_path, *files)
        bodies = [it["body"] for it in asked if it["custom_id"] in failed]
        sent = [in_one_piece(body) for _, body in there.seen]
        assert sorted(sent) == sorted(map(in_one_piece, bodies))
        run(tmp_path, *words, "-o", "live")
        assert len(there.seen) == 20 + 192
    assert outcome(tmp_path / "by_files") == outcome(tmp_path / "live")
    assert not any(KEY.encode() in it.read_bytes() for it in tmp_path.rglob("*") if it.is_file())


def test_where_nothing_lacks_the_run_is_written_and_the_last_requests_go(tmp_path, votes):
    words = ("evaluate", "-b", votes, "-c", "none", "-s", f"judge:api:m?base_url={DEAD}",
             "--cache", "replies", "--requests", "judge.jsonl")  # fmt: skip
    run(tmp_path, *words)
    (tmp_path / "judge-2.jsonl").write_bytes((tmp_path / "judge.jsonl").read_bytes())
    (tmp_path / "judge-3.jsonl").write_text("mine")
    out = write_rows(tmp_path / "out.jsonl", map(reply, read(tmp_path / "judge.jsonl")))
    run(tmp_path, "replies", out, "--cache", "replies")
    said = run(tmp_path, *words).stdout
    assert said.startswith("nothing lacks; 6 from the cache\n")
    assert json.loads(outcome(tmp_path / "runs")[0])["unscored"] == 0
    assert [it.name for it in tmp_path.glob("judge*")] == ["judge-3.jsonl"]


def test_contexts_that_a_model_writes_take_two_rounds_and_say_so(tmp_path, votes):
    scorers = ("-s", f"judge:api:m?base_url={DEAD}", "-s", f"judge:api:n?base_url={DEAD}")
    words = ("evaluate", "-b", votes, "-c", f"persona:api:w?base_url={DEAD}", *scorers,
             "--cache", "replies")  # fmt: skip
    write_only = (*words, "--requests", "asked.jsonl")
    first = run(tmp_path, *write_only).stdout
    assert "3 requests in asked.jsonl (w at" in first
    assert "2 runs will ask more when these are answered" in first
    out = write_rows(tmp_path / "texts.jsonl", map(reply, read(tmp_path / "asked.jsonl")))
    run(tmp_path, "replies", out, "--cache", "replies")
    second = run(tmp_path, *write_only).stdout
    assert "6 requests in asked.jsonl (m at" in second
    assert "; 6 requests in asked-2.jsonl (n at" in second, "a batch has one model"
    assert "more" not in second
    outs = [write_rows(tmp_path / f"out-{k}.jsonl", map(reply, read(tmp_path / name)))
            for k, name in enumerate(("asked.jsonl", "asked-2.jsonl"))]  # fmt: skip
    run(tmp_path, "replies", *outs, "--cache", "replies")
    run(tmp_path, *words)
    assert len(list((tmp_path / "runs").rglob("summary.json"))) == 2


def test_what_a_finished_run_holds_is_not_asked_again(tmp_path, votes):
    with Loopback(answer) as there:
        words = ("evaluate", "-b", votes, "-c", "none", "-s", f"judge:api:m?base_url={there.url}")
        run(tmp_path, *words)
        said = run(tmp_path, *words, "--cache", "empty", "--requests", "judge.jsonl").stdout
        assert said.startswith("nothing lacks; 0 from the cache\n")
        assert len(there.seen) == 6


def test_a_killed_run_leaves_what_was_there(tmp_path, votes, monkeypatch):
    words = ("evaluate", "-b", votes, "-c", "none", "-s", f"judge:api:m?base_url={DEAD}",
             "--cache", "replies", "--requests", "judge.jsonl")  # fmt: skip
    run(tmp_path, *words)
    before = (tmp_path / "judge.jsonl").read_bytes()

    def stopped(*given):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("palate.comparison.grid.BoundScorer.of", stopped)
        run(tmp_path, *words, code=130)
    assert (tmp_path / "judge.jsonl").read_bytes() == before
    assert not list(tmp_path.glob(".judge*"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--requests judge.jsonl: needs --cache DIR, for the replies"),
        (("--cache", "c", "--max-cost", "1"), "leave out --max-cost"),
        (("--cache", "c", "--ask-again", "0.5"), "leave out --ask-again"),
        (("--cache", "c", "--retry-unscored"), "leave out --retry-unscored"),
        (("--cache", "c", "--engine", "ray?workers=2"), "leave out --engine"),
        (("--cache", "c", "--shard", "1/2"), "leave out --shard"),
        (("--cache", "c", "--dry-run"), "--dry-run"),
        (("--cache", "c", "--requests", "votes.jsonl"),
         "--requests votes.jsonl: exists and is no request file of palate's"),
        (("--cache", "c", "--requests", "."), "Is a directory"),
        (("--cache", "c", "-s", "classifier:api:r?base_url=http://127.0.0.1:9&server=vllm"),
         "classify: no batch takes that; leave out --requests"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_one_line_and_exit_2(tmp_path, votes, words, said):
    judge = f"judge:api:m?base_url={DEAD}"
    done = run(tmp_path, "evaluate", "-b", votes, "-c", "none", "-s", judge,
               "--requests", "judge.jsonl", *words, code=2)  # fmt: skip
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("palate: ")]
    assert said in line
    assert not list(tmp_path.glob("*judge*"))


ID = "ab" * 32
GOOD = {"custom_id": ID, "response": {"status_code": 200, "body": completion("Verdict: A")}}
OTHER = {"custom_id": ID, "response": {"status_code": 200, "body": completion("Verdict: B")}}


@pytest.mark.parametrize(
    ("last", "said"),
    [
        ('{"response": null}', "out.jsonl:2: `custom_id`: no key of a request"),
        (json.dumps({**GOOD, "custom_id": "request-1"}), "out.jsonl:2: `custom_id`: no key of a"),
        (json.dumps({"custom_id": ID, **completion("A")}), "out.jsonl:2: no line of OpenAI's"),
        (json.dumps({"custom_id": ID, "response": {"status_code": "200", "body": {}}}),
         "out.jsonl:2: no line of OpenAI's batches: it has no"),
        (json.dumps({"custom_id": ID, "response": completion("A")}), "no line of OpenAI's batches"),
        (json.dumps({"custom_id": ID, "result": {"type": "succeeded", "message": {}}}),
         "out.jsonl:2: no line of OpenAI's batches, but of Anthropic's"),
        (json.dumps({"recordId": "1", "modelInput": {}, "modelOutput": {"content": []}}),
         "out.jsonl:2: no line of OpenAI's batches, but of Bedrock's"),
        (json.dumps({"key": "1", "response": {"candidates": []}}), "but of Gemini's"),
        (json.dumps({**GOOD, "custom_id": ID.upper()}), "out.jsonl:2: `custom_id`"),
        ("[1]", "out.jsonl:2: `custom_id`"),
        (json.dumps(GOOD)[:-9], "out.jsonl:2: not JSON"),
        (json.dumps(OTHER), "out.jsonl:2: another reply to this request came before"),
        (json.dumps({"custom_id": ID, "method": "POST", "url": "/v1/x", "body": {}}),
         "out.jsonl:2: a request; name what came back"),
    ],
)  # fmt: skip
def test_of_a_file_with_a_wrong_line_nothing_is_kept(tmp_path, last, said):
    (tmp_path / "out.jsonl").write_text(f"{json.dumps(GOOD)}\n{last}")
    done = run(tmp_path, "replies", "out.jsonl", "--cache", "replies", code=2)
    assert done.stderr.count("\n") == 1
    assert said in done.stderr
    assert not list((tmp_path / "replies").rglob("??/*"))


def test_what_has_no_reply_is_counted_by_reason_and_what_came_later_is_kept(tmp_path):
    def line(k, response, error=None):
        return {"custom_id": f"{k:064x}", "response": response, "error": error}

    refused = {"error": {"code": "unsupported_value", "param": "temperature"}}
    lines = [
        line(1, None, {"code": "batch_expired", "message": "too late"}),
        line(2, None, {"code": "batch_expired"}),
        line(3, {"status_code": 400, "body": refused}),
        line(4, {"status_code": 400, "body": None}, {"error": refused["error"]}),
        line(5, {"status_code": 200, "body": {"error": {"message": "overloaded"}}}),
        line(6, {"status_code": 200, "body": None}),
        line(7, None),
        line(8, {"status_code": 500, "body": {}}),
        line(9, {"status_code": 200, "body": completion("B")}, {"code": "output_lost"}),
    ]
    write_rows(tmp_path / "errors.jsonl", lines)
    late = {**completion("Verdict: A"), "é": 1.5}
    text = f"\ufeff{json.dumps(line(8, {'status_code': 200, 'body': late}))}\r\n\r\n"
    with gzip.open(tmp_path / "late.jsonl.gz", "wt", encoding="utf-8", newline="") as stream:
        stream.write(text)
    (tmp_path / "none.jsonl").touch()
    words = "replies", "errors.jsonl", "late.jsonl.gz", "none.jsonl", "--cache", "replies"
    assert run(tmp_path, *words).stdout == (
        "kept in replies: 1; without a reply: 2 batch_expired, "
        "2 HTTP 400: unsupported_value (temperature), 2 HTTP 200 without a reply, "
        "1 no response, 1 output_lost\n"
    )
    (kept,) = (tmp_path / "replies").rglob("??/*")
    assert kept.read_bytes().endswith(',"é":1.5}'.encode())
    assert "cannot be read" in run(tmp_path, "replies", "x", "--cache", "c", code=2).stderr
    wrong = run(tmp_path, *words[:-1], "none.jsonl", code=2).stderr
    assert wrong.startswith("palate: --cache none.jsonl: cannot write there")
    pipe = run(tmp_path, "replies", "/dev/null", "--cache", "c", code=2).stderr
    assert pipe == "palate: /dev/null: a folder or a pipe; name a file\n"
