"""Manifests, Holm's correction and the pairing of rows have one place each; files: test_files."""

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
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if f"{called}(" in source else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == called:
                files.add(str(place))
    return files


@pytest.mark.parametrize(
    ("called", "rooms", "places"),
    [
        ("Manifest", (), set()),  # `Manifest.of` alone makes one
        ("holm", (), {"runs/summary.py"}),
        ("Units.of", ("uses", "validity", "reports"), {"uses/units.py"}),
        ("Clusters.of", ("uses", "validity", "reports"), {"uses/units.py"}),
    ],
)
def test_it_is_done_in_one_place(called: str, rooms: tuple[str, ...], places: set[str]) -> None:
    assert callers(called, rooms) == places


def test_the_check_sees_a_call() -> None:
    assert "uses/result.py" in callers("Manifest.of")
