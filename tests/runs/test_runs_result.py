"""Results on disk: read back as their kind, refused in one line, printed and exported."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from palate.comparison import compare, evaluate
from palate.errors import RunError, UsageError
from palate.runs import (
    MANIFEST,
    ROWS,
    SUMMARY,
    Manifest,
    Run,
    Verdicts,
    load,
    load_all,
    read_manifest,
)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return evaluate("tasting", "longest", "none", root=tmp_path / "runs")


def changed(folder: Path, name: str, **fields: object) -> None:
    document = json.loads((folder / name).read_text())
    (folder / name).write_text(json.dumps({**document, **fields}))


def test_a_run_is_read_back_as_it_was(run: Run) -> None:
    there = load(run.folder)
    assert isinstance(there, Run)
    assert there.summary == run.summary
    assert list(there.verdicts.rows) == list(run.verdicts.rows)
    assert there.document() == json.loads((run.folder / SUMMARY).read_text())
    assert (there.document()["schema"], there.document()["kind"]) == (4, "run")


def test_rows_hold_no_text(run: Run) -> None:
    held = json.loads((run.folder / ROWS).read_text().splitlines()[0])
    assert {"content_hash", "question_hash", "response_hashes"} <= held.keys()
    assert all(re.fullmatch("[0-9a-f]+", text) for text in held["response_hashes"])


def test_all_kinds_under_a_root_or_one(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "runs" / "tasting" / "scores" / "x-00000000"
    Manifest(kind="scores", identity={"benchmark": "tasting", "name": "x"}).write(other)
    assert len(load_all(tmp_path / "runs")) == 1, "unfinished work is passed over"
    changed(other, MANIFEST, kind="unheard-of")
    (other / SUMMARY).write_text('{"schema": 4, "kind": "unheard-of"}')
    assert [one.folder for one in load_all(tmp_path / "runs", kind="run")] == [run.folder]
    with pytest.raises(RunError, match=r"unknown result 'unheard-of'; known: .*run"):
        load_all([tmp_path / "runs"])
    with pytest.raises(RunError, match="no finished validity at or under this folder"):
        load_all(tmp_path / "runs", kind="validity")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"schema": 2},
            "an older version of palate (schema 2, this one reads 4); remove it and run",
        ),
        ({"schema": 5}, "a newer version of palate (schema 5, this one reads 4); update palate"),
        ({"kind": "scores"}, "holds 'scores'; expected 'run'"),
    ],
)
def test_what_is_no_run_of_this_format_is_refused_in_one_line(
    run: Run, fields: dict[str, object], message: str
) -> None:
    changed(run.folder, MANIFEST, **fields)
    with pytest.raises(RunError, match=re.escape(message)) as refused:
        Run.read(run.folder)
    assert str(refused.value).count("\n") == 0
    assert str(run.folder) in str(refused.value)
    if "schema" in fields:
        with pytest.raises(RunError, match=re.escape(message)):
            load_all(run.folder.parents[2])


def test_unfinished_foreign_and_broken_folders_are_refused(run: Run, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no result of palate's \(manifest.json"):
        load(tmp_path)
    (tmp_path / MANIFEST).write_text('{"start_url": "/"}')
    with pytest.raises(RunError, match="names no identity"):
        load(tmp_path)
    lines = (run.folder / ROWS).read_text().splitlines(keepends=True)
    (run.folder / ROWS).write_text("".join(lines[:5]))
    with pytest.raises(RunError, match="5 rows of 96; run the command again"):
        load(run.folder)
    (run.folder / ROWS).write_text("{}\n")
    with pytest.raises(RunError, match="no readable rows"):
        load(run.folder)
    changed(run.folder, SUMMARY, schema=7)
    with pytest.raises(RunError, match=r"no readable summary\.json \(schema 7"):
        load(run.folder)
    (run.folder / SUMMARY).write_text("{")
    with pytest.raises(RunError, match=r"no readable summary\.json"):
        load(run.folder)
    (run.folder / SUMMARY).unlink()
    with pytest.raises(RunError, match="not finished; run the command that began it again"):
        load(run.folder)
    document = json.loads((run.folder / MANIFEST).read_text())
    del document["schema"]
    (run.folder / MANIFEST).write_text(json.dumps(document))
    with pytest.raises(RunError, match="an older version"):
        load(run.folder)


def test_a_result_prints_and_exports_itself(run: Run) -> None:
    printed = str(run)
    assert "tasting: 48 mirrored couples" in printed
    assert "0.500 [0.500, 0.500]" in printed
    assert json.loads(run.to_json()) == run.document()
    assert r"\toprule" in run.to_latex()
    table = run.to_arrow()
    assert isinstance(table, pa.Table)
    assert table.column("id").to_pylist() == [row.id for row in run.verdicts.rows]


def test_what_is_in_memory_alone_is_not_saved() -> None:
    run = evaluate("tasting", "longest", "none", root=None)
    with pytest.raises(UsageError, match="nowhere to save it"):
        Run(run.summary, Verdicts(())).save()


def test_folders_are_named_by_all_that_numbers_depend_on(tmp_path: Path) -> None:
    made = [evaluate("tasting", "longest", "none", root=tmp_path / str(k)) for k in range(2)]
    first, second = (run.folder.relative_to(run.folder.parents[2]) for run in made)
    assert first == second
    manifest = read_manifest(made[0].folder)
    other = manifest.model_copy(update={"identity": {**manifest.identity, "seed": 1}})
    assert other.folder(tmp_path) != manifest.folder(tmp_path)
    with pytest.raises(RunError, match="holds another result"):
        other.write(made[0].folder)


def test_a_copy_counts_once_and_another_programs_manifest_is_passed_over(
    run: Run, tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    shutil.copytree(run.folder, root / "copies" / "mine")
    (root / "web").mkdir()
    (root / "web" / MANIFEST).write_text('{"name": "an application"}')
    assert [one.summary for one in load_all(root)] == [run.summary]
    assert len(compare([root, evaluate("tasting", "random", "none", root=None)]).runs) == 2


@pytest.mark.parametrize(
    ("details", "compiled"),
    [({}, "off"), ({"compile": "inductor"}, "on"), ({"policy": {"compile": "inductor"}}, "on"),
     ({"prompt": 'say {"compile":"inductor"}'}, "off"), ({"attention": "tree"}, "off")],
)  # fmt: skip
def test_a_scorer_is_built_again_as_its_manifest_says(details, compiled):
    identity = {"seed": 3, "dtype": "bfloat16", "batch_tokens": None}
    manifest = Manifest.of("run", {**identity, "scorer": "longest"}, details=(details,))
    assert manifest.built_with == {**identity, "compile": compiled}
    by_sdpa = Manifest.of("run", manifest.identity, details=({**details, "attention": "sdpa"},))
    assert by_sdpa.built_with == {**manifest.built_with, "attention": "sdpa"}
