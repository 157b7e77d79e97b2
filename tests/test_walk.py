"""`tools/walk.py`: a value goes through few files, and hardly turns back."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from walk import walk

ROUTES = [
    ("evaluate", "benchmark"),
    ("best_of_n", "samples"),
    ("decode", "scorers"),
    ("ppo", "scorer"),
    ("policy_accuracy", "benchmark"),
]


@pytest.mark.parametrize(("function", "name"), ROUTES)
def test_a_value_enters_no_file_thrice_and_turns_back_three_times_at_most(
    function: str, name: str
) -> None:
    route = walk(function, name)
    assert max(route.entries.values()) <= 2, route.stays
    assert route.returns <= 3, route.stays


def test_a_walk_follows_a_value_under_other_names() -> None:
    route = walk("evaluate", "benchmark")
    assert {"benchmark", "pairs", "dataset"} <= set(route.names)
    assert "palate.contexts.rows" in route.stays


def test_a_function_or_a_name_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="palate has no function evalute"):
        walk("evalute", "benchmark")
    with pytest.raises(ValueError, match="no name sampels in it"):
        walk("best_of_n", "sampels")
