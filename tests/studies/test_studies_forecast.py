"""The study of forecasts: its commands are palate's, and forecasts come before ratings."""

from __future__ import annotations

import json
from pathlib import Path

from recorded_commands import Recorded, parse

from studies.forecast import study

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


def test_the_readme_holds_the_figures_that_were_kept():
    told = (FOLDER / "README.md").read_text(encoding="utf-8")
    for k in study.KS:
        document = json.loads((FOLDER / f"best-of-{k}.json").read_text(encoding="utf-8"))
        for score in document["forecasts"]:
            assert score["late"] == 0
            assert len(score["scorers"]) >= 20
            for name in ("mean_error", "error_of_zero", "cover"):
                assert f"{score[name]:.3f}" in told, (k, name)
            for name in ("first", "second"):
                assert f"{score['tau'][name]:.3f}".replace("-", "−") in told, (k, name)
