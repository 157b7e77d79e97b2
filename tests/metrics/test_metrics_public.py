import doctest
import importlib
import pkgutil

import pytest

import palate.metrics

ROOMS = sorted(room.name for room in pkgutil.iter_modules(palate.metrics.__path__))


def test_all_is_sorted_complete_and_real() -> None:
    names = palate.metrics.__all__
    assert names == sorted(names)
    public = {
        name
        for name, thing in vars(palate.metrics).items()
        if not name.startswith("_") and name not in ROOMS and callable(thing)
    }
    # `accuracy` and `calibration` name a room and its function; the function must win.
    shared = {name for name in names if name in ROOMS}
    assert set(names) == public | shared
    assert all(callable(getattr(palate.metrics, name)) for name in names)


@pytest.mark.parametrize("room", ROOMS)
def test_examples_print_what_they_say(room: str) -> None:
    found = doctest.testmod(importlib.import_module(f"palate.metrics.{room}"))
    assert found.attempted > 0
    assert found.failed == 0


def test_every_public_function_has_an_example() -> None:
    functions = [getattr(palate.metrics, name) for name in palate.metrics.__all__]
    without = [f.__name__ for f in functions if not isinstance(f, type) and ">>>" not in f.__doc__]
    assert without == []
