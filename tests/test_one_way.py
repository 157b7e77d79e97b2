"""What is done in one place: manifests, Holm's correction, the pairing of rows."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "palate"


def callers(called: str, rooms: tuple[str, ...] = ()) -> set[str]:
    """Return the files in which something of this name is called, in some rooms or in all."""
    files = set()
    for path in sorted(SOURCE.rglob("*.py")):
        place = path.relative_to(SOURCE)
        if rooms and place.parts[0] not in rooms:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == called:
                files.add(str(place))
    return files


@pytest.mark.parametrize(
    ("called", "rooms", "places"),
    [
        ("Manifest", (), set()),  # `Manifest.of` alone makes one
        ("holm", (), {"runs/holm.py"}),
        ("Units.of", ("uses", "validity", "reports"), {"uses/units.py"}),
        ("Clusters.of", ("uses", "validity", "reports"), {"uses/units.py"}),
    ],
)
def test_it_is_done_in_one_place(called: str, rooms: tuple[str, ...], places: set[str]) -> None:
    assert callers(called, rooms) == places


def test_the_check_sees_a_call() -> None:
    assert "uses/best_of_n/best_of_n.py" in callers("Manifest.of")


APPENDING = {"runs/journal.py", "runs/lock.py", "stores/vectors.py", "trainers/log.py"}
"""Files that grow: a torn last line is passed over when they are read."""


def opened_to_write(tree: ast.AST) -> set[str]:
    """Return by which modes and methods files are written."""
    ways = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("write_text", "write_bytes", "save_file"):
                ways.add(node.func.attr)
            modes = {
                str(each.value) for each in node.args[:1] if isinstance(each, ast.Constant)
            }  # fmt: skip
            if node.func.attr == "open":
                ways |= {mode for mode in modes if set(mode) & set("wxa+")}
    return ways


def test_files_are_written_whole_in_one_place() -> None:
    for path in sorted(SOURCE.rglob("*.py")):
        place = str(path.relative_to(SOURCE))
        ways = opened_to_write(ast.parse(path.read_text(encoding="utf-8")))
        allowed = {"xb"} if place == "files.py" else {"a", "ab"} if place in APPENDING else set()
        assert ways <= allowed, f"{place}: write it by palate.files ({', '.join(ways)})"


def test_the_check_sees_what_is_written() -> None:
    code = "path.write_text(text); file.open('w'); file.open(); file.open('ab')"
    assert opened_to_write(ast.parse(code)) == {"write_text", "w", "ab"}
