"""The published JSON Schemas are those of what is written, and what is written fits them."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pydantic
import pytest
from jsonschema import Draft202012Validator

from palate.benchmarks import load_benchmark
from palate.comparison import compare, groups_of, plan_grid, ratings_of, run_grid
from palate.evaluation import Work
from palate.records import Settings
from palate.runs import MANIFEST, ROWS, SUMMARY
from palate.session import default_session

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "schemas"


def validator(name: str) -> Draft202012Validator:
    schema = json.loads((FOLDER / f"{name}.json").read_text(encoding="utf-8"))
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.skipif(
    tuple(map(int, pydantic.VERSION.split(".")[:2])) < (2, 14),
    reason="older pydantic leaves the descriptions of fields out",
)
def test_the_published_schemas_are_up_to_date(tmp_path: Path) -> None:
    tool = FOLDER.parents[1] / "tools" / "schemas.py"
    subprocess.run([sys.executable, str(tool), str(tmp_path)], check=True, capture_output=True)
    published, made = (
        {path.name: path.read_text(encoding="utf-8") for path in folder.glob("*.json")}
        for folder in (FOLDER, tmp_path)
    )
    assert published == made, "run python tools/schemas.py"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("schemas") / "mine.jsonl"
    rows = [
        {"id": k, "user_id": f"u{k % 7}", "question": f"Which, {k}?", "chosen": "x" * (k % 5 + 1),
         "rejected": "y" * (k % 3 + 6), "category": "ab"[k % 2],
         "profile": [{"id": "p", "text": f"I wrote this, {k % 7}."}],
         "chosen_rating": 3 + k % 3, "rejected_rating": 1 + k % 3, "rating_scale": [1, 5]}
        for k in range(42)
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    session, settings, pairs = default_session(), Settings(), load_benchmark(str(path))
    cells = plan_grid(
        [pairs],
        ["longest", "random"],
        ["none", "profile:1", "stranger:1"],
        Work.of(session, settings),
    )
    return run_grid(cells, Work.of(session, settings, root=path.parent / "runs"))


def test_runs_fit_their_schemas(grid: Any) -> None:
    manifest, summary, row = map(validator, ("manifest", "run", "run.rows"))
    for run in grid.runs:
        for schema, file in ((manifest, MANIFEST), (summary, SUMMARY)):
            schema.validate(json.loads((run.folder / file).read_text(encoding="utf-8")))
        for line in (run.folder / ROWS).read_text(encoding="utf-8").splitlines():
            row.validate(json.loads(line))


def test_what_commands_print_fits_its_schema(grid: Any) -> None:
    views = tuple(groups_of(grid.runs, ["category"]))
    whole = replace(grid, groups=views, ratings=tuple(ratings_of(grid.runs)))
    validator("evaluation").validate(json.loads(whole.to_json()))
    bare = [run for run in grid.runs if run.summary.context == "none"]
    validator("comparison").validate(json.loads(compare(bare).to_json()))


def test_a_schema_refuses_what_does_not_fit(grid: Any) -> None:
    document = json.loads(Path(grid.runs[0].folder / SUMMARY).read_text(encoding="utf-8"))
    del document["accuracy"]
    assert not validator("run").is_valid(document)
    assert not validator("run").is_valid({**document, "schema": 1})
