import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import palate
import palate.metrics

ROOMS = sorted(
    room.name
    for room in pkgutil.walk_packages(palate.metrics.__path__, "palate.metrics.")
    if not room.ispkg
)


PUBLIC = {
    name: thing
    for name, thing in vars(palate.metrics).items()
    if not name.startswith("_") and not inspect.ismodule(thing)
}


def test_the_door_gives_functions_and_classes() -> None:
    assert all(map(callable, PUBLIC.values()))
    assert PUBLIC["accuracy"]([1, 0], "ab").value == 0.5  # not the file of this name


@pytest.mark.parametrize("room", ROOMS)
def test_examples_print_what_they_say(room: str) -> None:
    found = doctest.testmod(importlib.import_module(room))
    assert found.attempted > 0
    assert found.failed == 0


def test_every_public_function_has_an_example() -> None:
    functions = [thing for thing in PUBLIC.values() if not isinstance(thing, type)]
    assert [f.__name__ for f in functions if ">>>" not in f.__doc__] == []


def test_everything_public_is_used_outside_its_file_and_its_tests() -> None:
    source = Path(palate.__file__).parent
    files = [
        (path, path.read_text(encoding="utf-8"))
        for place in (source, source.parent.parent / "tools")
        for path in place.rglob("*.py")
        if path.name != "__init__.py"
    ]
    for name, thing in PUBLIC.items():
        home = Path(inspect.getfile(thing))
        pattern = re.compile(rf"\b{name}\b" if isinstance(thing, type) else rf"\b{name}\(")
        assert any(pattern.search(text) for path, text in files if path != home), name
