"""A worker that would give other numbers than are planned says so, and gives none."""

from __future__ import annotations

import pytest

from palate.engines import reader
from palate.errors import EngineError
from palate.execution import build_runner
from palate.execution.ray_runner import ScorerIdentity, Worker
from palate.records import Prepared, Settings
from palate.scorers import build_scorer
from palate.session import Session
from tiny import make_slate

UNIT = (Prepared(make_slate("Tea.", "Coffee.")),)


def replies(spec, settings, planned):
    return list(Worker(spec, {}, settings, 0, [], planned, spec).work(UNIT))


def planned_for(spec, settings=None):
    return ScorerIdentity.of(build_scorer(spec, Session(), settings or Settings()), spec)


@pytest.mark.parametrize(
    ("settings", "differs"),
    [
        (Settings(dtype="bfloat16"), "(dtype bfloat16 for float32)"),
        (Settings(batch_tokens=128), "(batch_tokens 128 for 4096)"),
        (Settings(attention="eager"), "(attention eager for tree)"),
    ],
)
def test_what_differs_is_named_and_no_result_is_given(tiny, settings, differs):
    spec = f"likelihood:{tiny.model()}"
    first, last = replies(spec, settings, planned_for(spec))
    assert first == ("results", [])
    kind, line = last
    assert kind == EngineError.__name__
    assert differs in line
    assert "give --device and --dtype" in line
    assert "\n" not in line


def test_other_weights_and_another_device_are_named(tiny, monkeypatch):
    spec = f"likelihood:{tiny.model()}"
    planned = planned_for(spec)
    moved = {**planned.details, "device": "cuda", "content": "0" * 64}
    elsewhere = planned._replace(fingerprint="of another", details=moved)
    _, (_, line) = replies(spec, Settings(), elsewhere)
    assert f"content {planned.details['content']} for {'0' * 64}, device cpu for cuda" in line
    assert reader.choose_device(None) == "cpu"


def test_parts_of_a_difference_are_compared_each(tiny):
    spec = f"implicit:{tiny.model()}?reference=none"
    planned = planned_for(spec)
    other = ScorerIdentity.of(build_scorer(spec, Session(), Settings(dtype="bfloat16")), spec)
    assert "policy dtype bfloat16 for float32" in planned.differences(other)


def test_where_no_detail_differs_the_versions_are_named():
    planned = planned_for("longest")
    old = planned._replace(fingerprint="old", versions={**planned.versions, "palate": "0.0.1"})
    _, (_, line) = replies("longest", Settings(), old)
    assert f"(palate {planned.versions['palate']} for 0.0.1)" in line
    same = planned._replace(fingerprint="old")
    assert f"fingerprint {planned.fingerprint[:8]} for old" in same.differences(planned)


def test_the_same_scorer_goes_to_work(tiny):
    for spec in ("longest", f"likelihood:{tiny.model()}"):
        *_, (kind, results) = replies(spec, Settings(), planned_for(spec))
        assert kind == "results"
        assert len(results) == 1


@pytest.mark.parametrize(
    ("spec", "told", "address"),
    [
        ("ray", None, "local"),
        ("ray", "", "local"),
        ("ray", "10.0.0.7:6379", "10.0.0.7:6379"),
        ("ray?address=auto", "10.0.0.7:6379", "auto"),
    ],
)
def test_the_address_is_that_of_the_environment_where_none_is_given(
    spec, told, address, monkeypatch
):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    if told is not None:
        monkeypatch.setenv("RAY_ADDRESS", told)
    assert build_runner(spec).address == address
