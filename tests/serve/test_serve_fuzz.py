"""Requests made from the server's own description: no answer is an error, or not described."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from serving import Rendering, Served

import palate
from palate.benchmarks import Dataset
from palate.serve.app import ServeSettings
from palate.serve.feedback import FeedbackFile

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
openapi = pytest.importorskip("schemathesis.specs.openapi.checks")
CONFORM = [
    openapi.status_code_conformance, openapi.content_type_conformance,
    openapi.response_schema_conformance,
]  # fmt: skip
EXAMPLES = 60
GOOD = {200, 201, 404}
"""Of requests that keep the description's rules; most ids that are made up are nobody's."""
DEPENDENT = {
    "/score": {"items": [{"row": "0", "responses": ["1", "2"]}]},
    "/get_reward": {"query": ["Which of 0?1"], "prompts": ["Which of 0?"], "labels": ["0"]},
    "/classify": {"input": "1", "user": "0"},
    "/pooling": {"input": ["1", "2"], "user": "0"},
    "/feedback": {"user": "a", "question": "Which?", "responses": ["1", "2"], "chosen": 0},
}
"""Whose fields depend on each other, so that no made-up request need be good: one that is."""
PATHS = (
    "/score", "/get_reward", "/classify", "/pooling", "/predict", "/feedback", "/healthz",
    "/readyz", "/metrics", "/v1/models",
)  # fmt: skip


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    data = Dataset.from_rows("fuzz", [
        {"id": name, "question": f"Which of {k}?", "chosen": "Tea.", "rejected": "Milk."}
        for k, name in enumerate("0123456789abcA")
    ])  # fmt: skip

    def load():
        return palate.reward(Rendering(), "none", benchmark=data)

    file = FeedbackFile(tmp_path_factory.mktemp("fuzz") / "feedback.jsonl")
    with Served(load, ServeSettings(feedback=file)) as server:
        yield server


def test_the_description_names_every_path(served):
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    assert {op.ok().path for op in schema.get_all_operations()} == set(PATHS)


@pytest.mark.parametrize("path", PATHS)
def test_no_request_makes_an_error_of_the_server(served, path):
    schema = schemathesis.openapi.from_url(f"{served.url}/openapi.json")
    (operation,) = (op.ok() for op in schema.get_all_operations() if op.ok().path == path)
    modes = schemathesis.GenerationMode
    cases = st.one_of(
        operation.as_strategy(generation_mode=modes.POSITIVE),
        operation.as_strategy(generation_mode=modes.NEGATIVE),
    )
    statuses = set()

    @settings(
        max_examples=EXAMPLES, phases=[Phase.generate], derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(cases)
    def ask(case):
        reply = case.call(base_url=served.url)
        statuses.add(reply.status_code)
        assert reply.status_code < 500, reply.text
        case.validate_response(reply, checks=CONFORM)

    ask()
    if path in DEPENDENT:
        reply = operation.Case(body=DEPENDENT[path], media_type="application/json").call(
            base_url=served.url
        )
        statuses.add(reply.status_code)
        assert reply.status_code in {200, 201}, reply.text
    assert statuses & GOOD, "some requests are good"
