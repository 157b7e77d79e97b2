"""palate measures whether a reward model knows whom it is judging for.

>>> import palate
>>> run = palate.evaluate("tasting", "longest", "none", root=None)
>>> run.accuracy
0.5
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

# Names are imported when they are first used. The stub, which type checkers read, is their table:
# each line of it is `from MODULE import NAME as NAME`.
with open(f"{__file__}i", encoding="utf-8") as _stub:  # noqa: PTH123 - pathlib costs 10 ms
    _LINES = [line.split() for line in _stub if line.startswith("from ")]
_MODULES = {name: module for _, module, _, name, *_ in _LINES}

__all__ = sorted(_MODULES)  # noqa: PLE0605


class _Package(ModuleType):
    """A module whose public names win over packages of the same name (`palate.validity`)."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing a package sets it on its parent, before or after the name was used.
        if not (name in _MODULES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        globals()[name] = getattr(import_module(_MODULES[name]), name)
        return globals()[name]
    from importlib.util import find_spec

    if not name.startswith("_") and find_spec(f"{__name__}.{name}"):
        return import_module(f"{__name__}.{name}")
    from difflib import get_close_matches

    near = get_close_matches(name, __all__)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    # Python would add a hint of its own if it knew the object.
    raise AttributeError(f"palate has no attribute {name!r}{hint}", name=name, obj=None)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
