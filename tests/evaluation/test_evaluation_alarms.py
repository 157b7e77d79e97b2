"""Planted sick scorers are named and healthy ones are not; a constant model stops early."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import planted_sick
from planted_sick import CONTEXT_ONCE, TASTING, PlantedScorer, healthy, sick, table

from pairs import pair_of
from palate.benchmarks import Dataset
from palate.comparison import evaluate
from palate.errors import UsageError
from palate.runs import JOURNAL, load
from palate.verification import DataOfRuns, verify_run
from scripted import ByFunction

SEEDS = 20


@pytest.fixture(scope="module")
def planted():
    return table(SEEDS)


@pytest.mark.parametrize("name", sick(0))
def test_a_sick_scorer_is_named_in_every_seed(planted, name):
    right, alarms = planted[name]
    assert right == SEEDS, alarms


@pytest.mark.parametrize("name", healthy(0))
def test_a_healthy_scorer_raises_no_alarm(planted, name):
    right, alarms = planted[name]
    assert right == SEEDS, alarms


def test_the_same_numbers_by_another_name_are_of_length_alone():
    length = ByFunction(lambda s, text: float(len(text)))
    (alarm,) = evaluate("tasting", length, "none", root=None, name="mine").summary.alarms
    assert (alarm.check, alarm.value) == ("length", 1.0)


def test_ten_pairs_show_a_constant_and_no_healthy_scorer_is_one():
    few = TASTING.limit(5)
    assert len(few.pairs) == 10
    for seed in range(5):
        for name, planted in {**sick(seed), **healthy(seed)}.items():
            if planted.score is not None and name != "half of the rows lost":
                run = evaluate(few, PlantedScorer(planted), CONTEXT_ONCE, root=None, name="few")
                checks = [alarm.check for alarm in run.summary.alarms]
                assert checks == ["constant"] * (name == "constant"), name


def test_few_rows_are_not_judged():
    few = TASTING.limit(4)
    for name, planted in sick(3).items():
        if planted.score is not None:
            run = evaluate(few, PlantedScorer(planted), CONTEXT_ONCE, root=None, name="few")
            assert run.summary.alarms == (), name


def test_alarms_stand_in_the_summary_of_those_that_have_any(tmp_path):
    for planted, checks in ((sick(0)["constant"], ["constant"]), (healthy(0)["a score"], None)):
        root = tmp_path / str(checks)
        run = evaluate(TASTING, PlantedScorer(planted), CONTEXT_ONCE, root=root, name="mine")
        document = json.loads((run.folder / "summary.json").read_text())
        assert [alarm["check"] for alarm in document.get("alarms", [])] == (checks or [])
        assert ("alarms" in document) == bool(checks)
        assert load(run.folder).summary.alarms == run.summary.alarms
        assert verify_run(run.folder, DataOfRuns()).problems == []


def model(number):
    """A scorer that reads a model, of which it says one number for each response."""
    return ByFunction(lambda s, text: number(text), exact=True, details={"model": "m"})


MANY = Dataset("many", tuple(
    pair_of(text=f"Question {k}?", id=str(k), user_id=f"u{k % 9}",
            chosen=f"yes {k}", rejected=f"no {k}")
    for k in range(500)
))  # fmt: skip


def test_a_model_with_one_score_for_all_is_stopped_once(tmp_path):
    constant = model(lambda text: 0.5)
    with pytest.raises(UsageError, match=r"^mine: stopped, for 2\d\d rows all score 0.5;"):
        evaluate(MANY, constant, "none", root=tmp_path, name="mine")
    first = len(constant.slates)
    assert 200 <= first < 300
    (journal,) = tmp_path.rglob(JOURNAL)
    known = journal.read_text()
    assert len(known.splitlines()) == 200
    run = evaluate(MANY, constant, "none", root=tmp_path, name="mine")
    assert journal.read_text().startswith(known)
    assert len(constant.slates) - first == 300, "what was kept is not computed again"
    assert [alarm.check for alarm in run.summary.alarms] == ["constant"]
    whole = evaluate(MANY, model(lambda text: 0.5), "none", root=None, name="mine")
    assert whole.summary == run.summary


@pytest.mark.parametrize(
    "scorer",
    [
        ByFunction(lambda s, text: 0.5, exact=True),
        model(lambda text: None),
        model(lambda text: float(text.startswith("yes"))),
    ],
    ids=["no model", "unscored", "two values"],
)
def test_nothing_else_is_stopped(scorer, tmp_path):
    assert evaluate(MANY, scorer, "none", root=tmp_path, name="mine").summary.n_pairs == 500


def test_the_tool_says_which_finished_runs_raise_alarms(tmp_path, capsys):
    evaluate(TASTING, "longest", "none", root=tmp_path)
    assert planted_sick.main(["--runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "1 runs, 0 alarms\n"
    constant = PlantedScorer(sick(0)["constant"])
    evaluate(TASTING, constant, "none", root=tmp_path, name="mine")
    assert planted_sick.main(["--runs", str(tmp_path)]) == 1
    assert "tasting · mine · none: constant (96 of 96)" in capsys.readouterr().out
