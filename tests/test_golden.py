"""`tools/golden.py`: what it takes for equal, and that it notices what is not."""

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

from golden import ROOT, Renames, compared, first_difference

AS_IS = Renames({}, {}, {})


def results(folder: Path, row: dict[str, object], files: tuple[str, str]) -> Path:
    run = folder / "runs" / "b" / "s" / "none-12345678"
    run.mkdir(parents=True)
    identity = {"benchmark": "b", "scorer": "s", "context": "none", "mirrors": None, "limit": 3}
    (run / "manifest.json").write_text(json.dumps({"identity": identity}))
    (run / files[0]).write_text(f"{json.dumps(row)}\n" * 2)
    (run / files[1]).write_text(json.dumps({"subsets": {"all": {"n": 3}}, "shift": row}))
    (folder / "0.out").write_text("a table, not compared")
    (folder / "1.out").write_text(json.dumps({"schema": 1, "runs": [{"shift": 0.5}]}))
    return folder


def differences(old: Path, new: Path, renames: Renames = AS_IS) -> dict[str, str]:
    return {label: str(found or "equal") for label, found in compared(old, new, renames)}


OLD = ("verdicts.jsonl", "summary.json")


def test_equal_results_are_equal_and_a_changed_digit_is_named(tmp_path: Path) -> None:
    old = results(tmp_path / "old", {"id": "1", "margin": 0.1}, OLD)
    same = results(tmp_path / "same", {"margin": 0.1, "id": "1"}, OLD)
    assert differences(old, same) == {"run b s none 3": "equal", "output 1": "equal"}
    other = results(tmp_path / "other", {"id": "1", "margin": 0.1 + 2e-18}, OLD)
    assert differences(old, other)["run b s none 3"] == "equal"  # the same float
    other = results(tmp_path / "more", {"id": "1", "margin": 0.10000000000000002}, OLD)
    found = differences(old, other)["run b s none 3"]
    assert found == "verdicts.jsonl:1.margin: 0.1 → 0.10000000000000002"


def test_a_run_that_one_side_lacks_differs(tmp_path: Path) -> None:
    old = results(tmp_path / "old", {"id": "1"}, OLD)
    new = tmp_path / "new"
    new.mkdir()
    (new / "1.out").write_text((old / "1.out").read_text())
    (new / "0.out").write_text("")
    assert differences(old, new) == {"run b s none 3": "exists: yes → no", "output 1": "equal"}


def test_renamed_files_and_fields_are_the_same_and_new_ones_are_left_out(tmp_path: Path) -> None:
    old = results(tmp_path / "old", {"id": "1", "share": {"low": 0.25}}, OLD)
    new = results(
        tmp_path / "new", {"id": "1", "part": {"lower": 0.25}, "kind": "run"},
        ("rows.jsonl", "summary.json"),
    )  # fmt: skip
    summary = {"subsets": {"all": {"count": 3}}, "concordance": {"id": "1", "share": {"low": 0.25}}}
    next(new.glob("runs/**/summary.json")).write_text(json.dumps(summary))
    (new / "1.out").write_text(json.dumps({"schema": 2, "runs": [{"concordance": 0.5}]}))
    renames = Renames(
        files={"verdicts.jsonl": "rows.jsonl"},
        fields={
            "rows": {"share.low": "lower", "share": "part"},
            "summary": {"subsets.*.n": "count", "shift": "concordance"},
            "output": {"runs.*.shift": "concordance"},
        },
        new={"rows": ["kind"]},
    )
    found = differences(old, new, renames)
    assert found == {"run b s none 3": "equal", "output 1": "schema: 1 → 2"}


def test_kinds_that_only_one_side_keeps_are_left_out_and_others_compared(tmp_path: Path) -> None:
    old = results(tmp_path / "old", {"id": "1"}, ("rows.jsonl", "summary.json"))
    new = results(tmp_path / "new", {"id": "1"}, ("rows.jsonl", "summary.json"))
    picks = new / "runs" / "b" / "best-of-n" / "p-12345678"
    picks.mkdir(parents=True)
    identity = {"benchmark": "b", "name": "p"}
    (picks / "manifest.json").write_text(json.dumps({"kind": "best-of-n", "identity": identity}))
    (picks / "summary.json").write_text("{}")
    (picks / "rows.jsonl").write_text("{}\n")
    assert "best-of-n b p" not in differences(old, new)
    assert differences(new, new)["best-of-n b p"] == "equal"


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"a": None}, {}, "a: is there → is not there"),
        ([1, 2], [1], ": [1, 2] → [1]"),
        ({"a": 1}, {"a": 1.0}, "a: 1 → 1.0"),
    ],
)
def test_what_differs_in_kind_differs(old: object, new: object, found: str) -> None:
    assert str(first_difference(old, new)) == found


def test_the_table_of_renames_is_read() -> None:
    table = Renames.read(ROOT / "tools" / "renames.json")
    assert set(table.fields) | set(table.new) | set(table.gone) <= {"rows", "summary", "output"}


def test_a_field_that_came_within_one_format_is_left_out_where_only_the_new_has_it(
    tmp_path: Path,
) -> None:
    renames = Renames({}, {}, {}, added={"summary": ["met_nothing"]})
    plain, more = {"id": "1"}, {"id": "1", "met_nothing": 3}
    old, new = results(tmp_path / "old", plain, OLD), results(tmp_path / "new", plain, OLD)
    folder = next(new.glob("runs/**/summary.json"))
    folder.write_text(json.dumps({**json.loads(folder.read_text()), "met_nothing": 3}))
    assert differences(old, new, renames)["run b s none 3"] == "equal"
    assert differences(old, new)["run b s none 3"] != "equal"
    assert differences(new, old, renames)["run b s none 3"] != "equal"
    changed = results(tmp_path / "changed", more, OLD)
    assert differences(old, changed, renames)["run b s none 3"] != "equal"  # a row, no summary
