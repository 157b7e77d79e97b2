import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from types import ModuleType

import pytest

import palate
import palate.metrics
import palate.metrics.ranks
import palate.metrics.selection

FOLDERS = [palate.metrics, palate.metrics.ranks, palate.metrics.selection]
ROOMS = sorted(
    room.name
    for room in pkgutil.walk_packages(palate.metrics.__path__, "palate.metrics.")
    if not room.ispkg
)


def test_every_folder_is_looked_at() -> None:
    inner = pkgutil.walk_packages(palate.metrics.__path__, "palate.metrics.")
    found = {room.name for room in inner if room.ispkg}
    assert {folder.__name__ for folder in FOLDERS} == found | {"palate.metrics"}


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.__name__)
def test_all_is_sorted_complete_and_real(folder: ModuleType) -> None:
    names = folder.__all__
    assert names == sorted(names)
    rooms = {room.name for room in pkgutil.iter_modules(folder.__path__)}
    public = {
        name
        for name, thing in vars(folder).items()
        if not name.startswith("_") and name not in rooms and callable(thing)
    }
    # `accuracy` and `calibration` name a room and its function; the function must win.
    shared = {name for name in names if name in rooms}
    assert set(names) == public | shared
    assert all(callable(getattr(folder, name)) for name in names)


@pytest.mark.parametrize("room", ROOMS)
def test_examples_print_what_they_say(room: str) -> None:
    found = doctest.testmod(importlib.import_module(room))
    assert found.attempted > 0
    assert found.failed == 0


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.__name__)
def test_every_public_function_has_an_example(folder: ModuleType) -> None:
    functions = [getattr(folder, name) for name in folder.__all__]
    without = [f.__name__ for f in functions if not isinstance(f, type) and ">>>" not in f.__doc__]
    assert without == []


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.__name__)
def test_everything_public_is_used_outside_its_file_and_its_tests(folder: ModuleType) -> None:
    source = Path(palate.__file__).parent
    files = [
        (path, path.read_text(encoding="utf-8"))
        for place in (source, source.parent.parent / "tools")
        for path in place.rglob("*.py")
        if path.name != "__init__.py"
    ]
    for name in folder.__all__:
        thing = getattr(folder, name)
        home = Path(inspect.getfile(thing))
        pattern = re.compile(rf"\b{name}\b" if isinstance(thing, type) else rf"\b{name}\(")
        assert any(pattern.search(text) for path, text in files if path != home), name
