"""Endpoints from the command line: the cache, the cap, what is said of both."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest

from command_line import palate_process, write_rows
from endpoints import Loopback

KEY = "sk-very-secret-0123456789"


palate = partial(palate_process, "evaluate", PALATE_API_KEY=KEY)


@pytest.fixture
def pairs(tmp_path):
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"Which, {k}?", "chosen": "a" * (k + 1),
         "rejected": "b" * (9 - k)}
        for k in range(8)
    ]  # fmt: skip
    return str(write_rows(tmp_path / "votes.jsonl", rows))


def answer(path, body):
    length = len(body["messages"][-1]["content"]) % 9
    choice = {"message": {"content": f"Rating: {1 + length}"}, "finish_reason": "stop"}
    return 200, {"choices": [choice], "usage": {"prompt_tokens": 1000, "completion_tokens": 10}}


def summary(root):
    (path,) = root.rglob("summary.json")
    return path.read_bytes()


def test_a_second_run_elsewhere_is_answered_by_the_cache(tmp_path, pairs):
    with Loopback(answer) as there:
        scorer = f"rating:api:m?base_url={there.url}/v1&price_in=1&price_out=2"
        words = ("-b", pairs, "-s", scorer, "--cache", "replies")
        first = palate(*words, "-o", "one", cwd=tmp_path)
        asked = len(there.seen)
        second = palate(*words, "-o", "two", cwd=tmp_path)
        assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
        assert len(there.seen) == asked == 16
    assert summary(tmp_path / "one") == summary(tmp_path / "two")
    assert "16 requests, $0.0163" in first.stderr
    assert "16 from the cache" in second.stderr
    assert "$" not in second.stderr
    for path in tmp_path.rglob("*"):
        if path.is_file():
            text = path.read_bytes()
            assert KEY.encode() not in text, path
            assert path.suffix == ".jsonl" or b"price_in" not in text, path
    assert KEY not in first.stdout + first.stderr


def test_a_cap_stops_asking_and_the_next_run_goes_on(tmp_path, pairs):
    with Loopback(answer) as there:
        scorer = f"rating:api:m?base_url={there.url}/v1&price_in=1&price_out=2&concurrency=2"
        words = ("-b", pairs, "-s", scorer)
        capped = palate(*words, "--max-cost", "0.009", cwd=tmp_path)
        spent = len(there.seen)
        assert 1 <= spent <= 9
        assert capped.returncode == 0, capped.stderr
        whole = palate(*words, cwd=tmp_path)
        assert whole.returncode == 0, whole.stderr
        assert 16 <= len(there.seen) <= 18, "half a slate is asked whole, and there are two at most"
    assert json.loads(summary(tmp_path / "runs"))["unscored"] == 0


def test_long_replies_are_heard_piece_by_piece_and_progress_is_told_meanwhile(tmp_path, pairs):
    few = tmp_path / "few.jsonl"
    few.write_text("".join(Path(pairs).read_text().splitlines(keepends=True)[:4]))

    def pieces():
        for k, text in enumerate(["Verdict", ":", " A"] + [""] * 21):
            time.sleep(0.5)
            end = "stop" if k == 23 else None
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": end}
            yield f"data: {json.dumps({'choices': [choice]})}\n\n"
        used = {"prompt_tokens": 100, "completion_tokens": 24}
        yield f"data: {json.dumps({'choices': [], 'usage': used})}\n\ndata: [DONE]\n\n"

    with Loopback(lambda path, body: (200, pieces())) as there:
        scorer = f"judge:api:m?base_url={there.url}/v1&timeout=2&price_in=1&price_out=2"
        done = palate("-b", str(few), "-s", scorer, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(there.seen) == 8, "nothing is asked twice"
    assert json.loads(summary(tmp_path / "runs"))["unscored"] == 0
    first = next(text for text in done.stderr.splitlines() if "under way" in text)
    assert " · none: 1" in first, "after ten seconds and some"
    assert "s so far, " in first
    assert "0 waiting, 8 under way, 0 done, 0 a minute" in first
    assert "under way" not in done.stdout
    assert "8 requests, $0.0012" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--max-cost", "1"), "price_in"),
        (("--max-cost", "-1"), "--max-cost -1"),
        (("--cache", "votes.jsonl"), "--cache votes.jsonl"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_2(tmp_path, pairs, words, said):
    scorer = "judge:api:m?base_url=http://127.0.0.1:9/v1"
    done = palate("-b", pairs, "-s", scorer, *words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("palate: ")]
    assert len(lines) == 1
    assert said in lines[0]
    assert "Traceback" not in done.stderr
