"""Rows and summary of a result belong together: an edited file is refused, not believed."""

import json
import shutil

import pytest

import palate
from palate.construction import audit
from palate.errors import ComparisonError, RunError
from palate.runs import Run, load_all, load_runs, result_folders

pytest.importorskip("matplotlib")


@pytest.fixture
def root(tmp_path):
    data = palate.load_benchmark("tasting", limit=6)
    palate.evaluate(data, ["longest", "shortest"], ["none"], root=tmp_path / "runs")
    return tmp_path / "runs"


def edited(folder, name):
    path = folder / name
    text = path.read_text(encoding="utf-8")
    new = text.replace('"chosen"', '"rejected"', 1) if name == "rows.jsonl" else (
        text.replace('"value": 0.5', '"value": 0.9', 1))  # fmt: skip
    assert new != text
    path.write_text(new, encoding="utf-8")


@pytest.mark.parametrize("name", ["rows.jsonl", "summary.json"])
def test_page_and_comparison_refuse_an_edited_run(root, tmp_path, name):
    edited(next(result_folders(root)), name)
    for use in (palate.compare, lambda runs: palate.report(runs, tmp_path / "page.html")):
        with pytest.raises(RunError, match=rf"{name} changed after the result was made"):
            use(root)


def test_an_edited_copy_beside_the_honest_run_is_refused_whatever_its_name(root, tmp_path):
    for copy in ("a", "zz"):
        shutil.copytree(root, root.parent / "both" / copy)
    edited(next(result_folders(tmp_path / "both" / "a")), "rows.jsonl")
    with pytest.raises(RunError, match="changed"):
        load_runs(tmp_path / "both")


def of_an_earlier_version(folder):
    (folder / "sums.json").unlink()
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    del manifest["account"]
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")


def test_runs_of_an_earlier_version_are_read_and_named_in_one_line(root, caplog):
    for folder in result_folders(root):
        of_an_earlier_version(folder)
    assert len(load_runs(root)) == 2
    (line,) = (it.getMessage() for it in caplog.records if "sums.json" in it.getMessage())
    assert "and 1 more: of an earlier version" in line


def test_a_run_of_this_version_without_sums_is_refused_by_page_and_comparison(root, tmp_path):
    folder = next(result_folders(root))
    (folder / "sums.json").unlink()
    for use in (palate.compare, lambda runs: palate.report(runs, tmp_path / "page.html")):
        with pytest.raises(RunError, match=rf"{folder.name}: sums\.json is gone"):
            use(root)


@pytest.mark.parametrize("text", ["{}", '{"rows.jsonl": "0"}'])
def test_sums_must_name_every_file(root, text):
    folder = next(result_folders(root))
    (folder / "sums.json").write_text(text, encoding="utf-8")
    with pytest.raises(RunError, match=r"rows\.jsonl, summary\.json changed"):
        palate.load(folder)


def test_line_ends_of_another_system_are_no_edit(root):
    for name in ("rows.jsonl", "summary.json"):
        for path in root.glob(f"**/{name}"):
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert len(load_runs(root)) == 2


def test_the_command_again_writes_what_was_edited_anew(root):
    folder = next(result_folders(root))
    before = (folder / "rows.jsonl").read_bytes()
    edited(folder, "rows.jsonl")
    data = palate.load_benchmark("tasting", limit=6)
    palate.evaluate(data, ["longest", "shortest"], ["none"], root=root)
    assert (folder / "rows.jsonl").read_bytes() == before
    assert len(load_runs(root)) == 2


def test_other_kinds_are_held_together_too(tmp_path):
    found = audit("tasting", root=tmp_path)
    assert len(load_all(tmp_path)) == 1
    edited_rows = (found.folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()[:-1]
    (found.folder / "rows.jsonl").write_text("\n".join(edited_rows), encoding="utf-8")
    with pytest.raises(RunError, match=r"rows\.jsonl changed"):
        palate.load(found.folder)


def test_sums_that_cannot_be_read_are_named(root):
    folder = next(result_folders(root))
    (folder / "sums.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(RunError, match=r"no readable sums\.json"):
        palate.load(folder)


def test_two_runs_of_the_same_settings_and_other_rows_are_told_as_such(root, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(root, copy)
    for folder in [*result_folders(copy)]:
        of_an_earlier_version(folder)
    folder = next(result_folders(copy))
    edited(folder, "rows.jsonl")
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    summary["accuracy"]["value"] = 0.75
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    with pytest.raises(ComparisonError, match="the same settings and other rows or figures"):
        palate.compare([root, copy])
    assert isinstance(palate.load(folder), Run)
