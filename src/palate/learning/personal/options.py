"""Options of a method, as given on the command line or in Python."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palate.errors import UsageError

if TYPE_CHECKING:
    from palate.learning.personal.protocol import Model


def read_options(method: type[Model], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the method's options, defaults filled in; raises `UsageError` for what is none.

    Numbers are above 0; where the default is None (chosen from the data) any of them goes.
    """
    unknown = sorted(set(given) - set(method.defaults))
    if unknown:
        known = ", ".join(method.defaults) or "none"
        raise UsageError(f"{method.method}: unknown option {unknown[0]!r} (known: {known})")
    read = {name: _read(method.method, name, given[name], method.defaults[name]) for name in given}
    return {**method.defaults, **read}


def _read(method: str, name: str, value: Any, default: Any) -> Any:
    if isinstance(default, (str, bool)):
        if not isinstance(value, type(default)):
            raise UsageError(f"{method}: {name}={value!r} is not like {default!r}")
        return value
    if value is None and default is None:
        return None
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value <= 0:
        raise UsageError(f"{method}: {name}={value!r} is not a number above 0")
    if isinstance(default, int):
        if int(value) != value:
            raise UsageError(f"{method}: {name}={value!r} is not a whole number")
        return int(value)
    return float(value)
