"""A build as a result: its stages add up to what was read, and everything reads it."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from lamp_shaped import article, clean, headline, item, read, write

import palate
from palate.construction import OwnTextBuild, build_own_text
from palate.errors import DataError, RunError, UsageError
from palate.reports.page import report

SCHEMAS = Path(__file__).parents[3] / "docs" / "schemas"
NUMBER = st.integers(0, 3)
SPOILT = st.lists(
    st.tuples(
        st.sampled_from(["later", "same input", "reference", "empty", "shared", "no text", "bad"]),
        NUMBER, NUMBER,
    ),
    max_size=12,
)  # fmt: skip


def spoilt(changes: list[tuple[str, int, int]]) -> list[dict[str, Any]]:
    """Return clean rows in which something is wrong, or another text stands."""
    rows = clean(users=4, articles=2, items=2)
    for k, (what, user, number) in enumerate(changes):
        row = rows[2 * user + number % 2]
        items = {
            "later": item(f"x{k}", article(50 + k), headline(user, 50 + k), "2016-02-01"),
            "same input": item(f"x{k}", article(number % 2), headline(user, 50 + k), "2015-02-01"),
            "reference": item(f"x{k}", article(50 + k), row["output"], "2015-02-01"),
            "empty": item(f"x{k}", article(50 + k), " ", "2015-02-01"),
            "shared": item(f"s{number}", article(90 + number), headline(user, 90 + number),
                           "2015-02-01"),
        }  # fmt: skip
        if what in items:
            row["profile"].append(items[what])
        elif what == "bad":
            row["profile"] = []
        else:
            row["profile"] = [items["later"]]
    return rows


@given(SPOILT, st.integers(0, 2))
@settings(max_examples=15, deadline=None)
def test_counts_by_stage_and_reason_add_up_to_what_was_read(
    changes: list[tuple[str, int, int]], adapt: int
) -> None:
    rows = spoilt(changes)
    with TemporaryDirectory() as name:
        folder, output = write(Path(name) / "lamp", rows), Path(name) / "p.jsonl"
        how: dict[str, Any] = {"layout": "lamp", "adapt": adapt, "skip_bad_rows": True}
        try:
            build = build_own_text(folder, output, root=name, **how)
        except DataError as error:
            assert "leaves no test row" in str(error)
            return
        stages = sorted(build.summary.stages, key=lambda stage: stage.of)
        for stage in stages:
            assert stage.n_read == stage.n_kept + sum(stage.dropped.values())
        chains = {of: list(group) for of, group in groupby(stages, lambda stage: stage.of)}
        for chain in chains.values():
            assert [stage.n_kept for stage in chain[:-1]] == [stage.n_read for stage in chain[1:]]
        assert chains["source rows"][0].n_read == len(rows)
        assert chains["test rows"][0].n_read == chains["source rows"][0].n_kept
        written = Counter(row["split"] for row in read(output))
        kept = {split: chains[f"{split} rows"][-1].n_kept for split in ("test", "adapt")}
        assert kept == {split: written[split] for split in kept}
        listed = [json.loads(line) for line in build.lines()]
        assert [row["id"] for row in listed if row["reason"] is None and row["split"] == "test"] \
            == [row["id"] for row in read(output) if row["split"] == "test"]  # fmt: skip
        reasons = Counter((row["stage"], row["reason"]) for row in listed if row["reason"])
        counted: Counter[tuple[str, str]] = Counter()
        for stage in [*chains["adapt rows"], *chains["test rows"][1:]]:
            counted.update({(stage.stage, why): n for why, n in stage.dropped.items()})
        assert reasons == counted


@pytest.fixture
def build(tmp_path: Path) -> OwnTextBuild:
    source = write(tmp_path / "lamp", spoilt([("shared", 0, 1), ("shared", 1, 1)]))
    return build_own_text(source, tmp_path / "p.jsonl", layout="lamp", root=tmp_path / "runs")


def test_it_is_a_result_like_any_other(build: OwnTextBuild, tmp_path: Path) -> None:
    assert build.folder is not None
    assert build.folder.parent == tmp_path / "runs" / "p" / "own-text"
    loaded = palate.load(build.folder)
    assert loaded == build
    assert palate.runs.load_all(tmp_path / "runs", kind="own-text") == [build]
    assert str(loaded) == str(build)
    assert "own-text benchmark p" in str(loaded)
    assert loaded.to_arrow().num_rows == len(list(build.lines())) > 8
    (tmp_path / "runs" / "p" / "own-text" / build.folder.name / "summary.json").unlink()
    with pytest.raises(RunError, match="not finished"):
        palate.load(build.folder)


def test_its_documents_fit_their_schemas(build: OwnTextBuild) -> None:
    summary, row = (
        Draft202012Validator(json.loads((SCHEMAS / f"{name}.json").read_text(encoding="utf-8")))
        for name in ("own-text", "own-text.rows")
    )
    summary.validate(json.loads(build.to_json()))
    assert not summary.is_valid({**build.document(), "stages": [{"stage": "leaks"}]})
    for line in build.lines():
        row.validate(json.loads(line))


def test_a_page_shows_it_beside_the_runs_of_its_benchmark(
    build: OwnTextBuild, tmp_path: Path
) -> None:
    palate.evaluate(tmp_path / "p.jsonl", "longest", "none", root=tmp_path / "runs")
    report(tmp_path / "runs", tmp_path / "page.html")
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "How the benchmark was built" in html
    assert "blind scorers on the test rows" in html
    assert str(tmp_path) not in html


def test_another_source_replaces_the_result_and_other_options_stand_beside_it(
    build: OwnTextBuild, tmp_path: Path
) -> None:
    assert build.folder is not None
    shutil.rmtree(tmp_path / "lamp")
    source = write(tmp_path / "lamp", clean(users=3))
    how: dict[str, Any] = {"layout": "lamp", "root": tmp_path / "runs"}
    again = build_own_text(source, tmp_path / "p.jsonl", **how)
    assert again.folder == build.folder
    assert palate.load(build.folder) == again != build
    other = build_own_text(source, tmp_path / "p.jsonl", adapt=0, **how)
    assert other.folder != build.folder
    assert len(palate.runs.load_all(tmp_path / "runs")) == 2


def test_without_a_root_only_the_file_is_kept(tmp_path: Path) -> None:
    source = write(tmp_path / "lamp", clean())
    build = palate.build_own_text(source, tmp_path / "p.jsonl", layout="lamp", root=None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lamp", "p.jsonl"]
    assert "own-text benchmark p" in str(build)
    with pytest.raises(UsageError, match="built without a root"):
        list(build.lines())
