"""A user's state and an in-context judge are compared: both know the user."""

import pytest

import palate
from palate.errors import ComparisonError
from palate.reports import Form, comparison_tables, render
from reports.page.planted_runs import OWN, STRANGER, rows_of, save_run, write_rows

STATE = "personal:./lore"


@pytest.fixture
def runs(tmp_path):
    pairs = write_rows(tmp_path / "mine.jsonl", rows_of(60))
    for scorer, contexts in {
        STATE: ["none"], f"{STATE}?state=prior": ["none"], f"{STATE}?state=stranger": ["none"],
        "judge:m": ["none", OWN, STRANGER], "longest": ["none", OWN, STRANGER],
    }.items():  # fmt: skip
        for context in contexts:
            save_run(tmp_path, pairs, scorer, context, accuracy=0.8 if scorer == STATE else 0.5)
    return tmp_path


def test_a_state_stands_beside_the_judge_that_is_shown_the_user(runs):
    comparison = palate.compare(runs)
    by_context = {
        group.context: {run.run.summary.scorer for run in group.ranking}
        for group in comparison.groups
    }
    assert by_context[f"{OWN}, or the user's state"] == {STATE, "judge:m", "longest"}
    assert by_context[STRANGER] == {"judge:m", "longest"}
    assert OWN not in by_context
    text = render(comparison_tables(comparison), Form.TABLE)
    assert "or the user's state: 3 scorers, 60 common rows" in text


def test_states_of_others_and_baselines_are_no_such_pair(tmp_path):
    pairs = write_rows(tmp_path / "mine.jsonl", rows_of(60))
    save_run(tmp_path, pairs, f"{STATE}?state=prior", "none")
    save_run(tmp_path, pairs, "judge:m", OWN)
    with pytest.raises(ComparisonError, match="here are mine under profile:3, mine under none"):
        palate.compare(tmp_path)
    save_run(tmp_path, pairs, STATE, "none")
    (group,) = [g for g in palate.compare(tmp_path).groups if "state" in g.context]
    assert group.tests[0].n == 60
