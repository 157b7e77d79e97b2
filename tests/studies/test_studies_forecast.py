"""The study of forecasts: its commands are palate's, and forecasts come before ratings."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from recorded_commands import Recorded, parse

from studies.forecast import alike, study, tables

FOLDER = Path(__file__).resolve().parents[2] / "studies" / "forecast"


def test_every_policy_is_forecast_before_an_answer_is_rated(tmp_path):
    palate = Recorded(tmp_path)
    study.run(palate)
    parse(palate.commands)
    steps = [words[0] for words in palate.commands]
    assert steps.index("best-of-n") > max(k for k, step in enumerate(steps) if step == "forecast")
    forecast, rated = (
        {words[words.index("-p") + 1] for words in palate.commands if words[0] == step}
        for step in ("forecast", "best-of-n")
    )
    assert forecast == rated == set(study.POLICIES)


def test_whatever_is_evaluated_is_trained_or_written_before(tmp_path):
    palate = Recorded(tmp_path)
    study.run(palate)
    made = {words[words.index("-o") + 1] for words in palate.commands if words[0] == "train"}
    wanted = [spec.split(":", 1)[1].split("?")[0] for spec in study.ALONE]
    assert {place for place in wanted if not place.startswith("pypi:")} == made
    for members in study.MIXES.values():
        assert set(members) <= set(study.ALONE)
    files = {f"{name}.toml" for name in study.MIXES} | {"plain.jinja"}
    assert {file.name for file in tmp_path.iterdir()} == files


def test_tables_are_those_of_the_documents_beside_them(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tables.py", str(FOLDER)])
    tables.main()
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    for table in capsys.readouterr().out.split("\n**"):
        assert table.strip("*\n") in page
    for k in study.KS:
        document = json.loads((FOLDER / f"best-of-{k}.json").read_text(encoding="utf-8"))
        assert len(document["forecasts"]) == len(study.POLICIES)
        for score in document["forecasts"]:
            assert score["late"] == 0
            specs = {it["scorer"].split("@")[0] for it in score["scorers"]}
            assert len(specs) == len(score["scorers"]) >= 20, "each scorer counts once"
            assert specs <= {*study.ALONE, *(f"mix:{name}.toml" for name in study.MIXES)}


def test_scorers_that_are_all_alike_count_as_one():
    scores = np.array([[1.0, 2.0, 4.0, np.nan], [-2.0, -4.0, -8.0, 1.0], [3.0, 6.0, 12.0, 0.0]])
    r = alike.correlations(scores[:2])
    assert r == pytest.approx(np.ones((2, 2)))
    assert alike.effective(r) == pytest.approx(1.0)
    assert alike.effective(np.eye(3)) == 3.0
