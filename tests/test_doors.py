"""Tests reach other rooms by their doors, so that files may move inside a room."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "palate"
WITHOUT_DOOR = {
    "cli": "each command is a file that the command line loads when it is asked for",
    "reports": "each kind is a file that is loaded when a result of that kind is shown",
    "uses": "each use is a file that is loaded when its function is called for",
    "scorers": "each scorer is a file that is loaded when its name is asked for",
}


ALSO_OWN = {"decoding_laws": ("guidance", "engines")}
"""Folders that test the files of these rooms."""


@cache
def imported(path: Path) -> list[tuple[str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        ((node.module or "").removeprefix("palate."), alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("palate.")
        for alias in node.names
    ]


def is_file_of_a_room(module: str) -> bool:
    return "." in module and SOURCE.joinpath(*module.split(".")).with_suffix(".py").exists()


def test_other_rooms_are_reached_by_their_doors() -> None:
    past = []
    for path in TESTS.rglob("*.py"):
        folder = path.relative_to(TESTS).parts[0]
        own = ALSO_OWN.get(folder, (folder,))
        past += [
            f"{path.relative_to(TESTS)}: {module}.{name}"
            for module, name in imported(path)
            if is_file_of_a_room(module)
            and module.partition(".")[0] not in own
            and not any(f"{module}.".startswith(f"{room}.") for room in WITHOUT_DOOR)
        ]
    assert not past, "import from the package, which lists what others may use:\n" + "\n".join(past)


def test_no_test_imports_a_private_name() -> None:
    private = [
        f"{path.relative_to(TESTS)}: {module}.{name}"
        for path in TESTS.rglob("*.py")
        for module, name in imported(path)
        if name.startswith("_")
    ]
    assert not private, "\n".join(private)
