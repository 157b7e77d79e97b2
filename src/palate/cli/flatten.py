"""Options that belong together are one parameter of a command, and flat options for its user."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, get_type_hints


def flatten_options(command: Callable[..., None]) -> Callable[..., None]:
    """Let typer see the fields of a command's options records in the place of the records.

    A record is a dataclass whose fields are annotated as typer's parameters are; the command is
    called with the records made of what was given.

    Raises:
        TypeError: where two parameters have one name.
    """
    hints = get_type_hints(command, include_extras=True)
    flat: dict[str, Parameter] = {}
    records: dict[str, type[Any]] = {}
    for name, given in inspect.signature(command).parameters.items():
        hint = hints[name]
        added = {name: given.replace(annotation=hint, kind=Parameter.KEYWORD_ONLY)}
        if is_dataclass(hint) and isinstance(hint, type):
            records[name] = hint
            typed = get_type_hints(hint, include_extras=True)
            added = {field.name: _parameter(field, typed[field.name]) for field in fields(hint)}
        twice = flat.keys() & added.keys()
        if twice:
            raise TypeError(f"{command.__name__}: two parameters are named {min(twice)}")
        flat |= added

    @wraps(command)
    def flattened(**given: Any) -> None:
        for name, record in records.items():
            given[name] = record(**{field.name: given.pop(field.name) for field in fields(record)})
        command(**given)

    flattened.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    flattened.__annotations__ = {name: given.annotation for name, given in flat.items()}
    return flattened


def _parameter(field: Field[Any], hint: Any) -> Parameter:
    default = Parameter.empty if field.default is MISSING else field.default
    if field.default_factory is not MISSING:
        default = field.default_factory()
    return Parameter(field.name, Parameter.KEYWORD_ONLY, default=default, annotation=hint)
