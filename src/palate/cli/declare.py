"""Options, declared flat for a user and in records for the code; what completes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, field, fields, is_dataclass
from functools import wraps
from inspect import Parameter
from typing import Any, get_type_hints

import typer
from typer.main import get_command

FLAGS = {
    "palate.benchmarks": ("-b", "--benchmark"),
    "palate.scorers": ("-s", "--scorer"),
    "palate.contexts": ("-c", "--context"),
}
"""The options whose values are names in an entry-point group, in every command alike."""


def option(default: Any, help: str, *names: str, panel: str | None = None, **more: Any) -> Any:
    """Declare an option: a parameter of a command, or a field of a dataclass that it takes.

    The default is `...` where it is required. `names` are its flags where its own name is none.
    """
    shown = typer.Option(default, *names, help=help, rich_help_panel=panel, **more)
    return _declared(default, shown)


def argument(default: Any, help: str, **more: Any) -> Any:
    """Declare a word without a flag, as `option` does."""
    return _declared(default, typer.Argument(default, help=help, **more))


def named(group: str, default: Any, help: str, **more: Any) -> Any:
    """Declare the option whose values are names in an entry-point group."""
    return option(default, help, *FLAGS[group], autocompletion=names_in(group), **more)


def _declared(default: Any, shown: Any) -> Any:
    metadata = {"shown": shown}
    if isinstance(default, list):
        return field(default_factory=lambda: [*default], metadata=metadata)
    return field(default=MISSING if default is ... else default, metadata=metadata)


def flattened(command: Callable[..., None], **added: type[Any]) -> Callable[..., None]:
    """Let typer see the options of a command's records in the place of the records.

    The command is called with the records made of what was given; those that are added, it does not
    take. Raises `TypeError` where two options have one name.
    """
    hints = get_type_hints(command, include_extras=True) | added
    defaults = {name: own.default for name, own in inspect.signature(command).parameters.items()}
    records: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    flat: dict[str, Parameter] = {}
    for name, default in [*defaults.items(), *dict.fromkeys(added).items()]:
        options = [_parameter(name, default, hints[name])]
        if name in records:
            types = get_type_hints(hints[name], include_extras=True)
            options = [_parameter(one.name, one, types[one.name]) for one in fields(hints[name])]
        for parameter in options:
            if parameter.name in flat:
                raise TypeError(f"{command.__name__}: two parameters are named {parameter.name}")
            flat[parameter.name] = parameter

    @wraps(command)
    def called(**given: Any) -> None:
        made = {
            name: record(**{one.name: given.pop(one.name) for one in fields(record)})
            for name, record in records.items()
        }
        command(**given, **{name: value for name, value in made.items() if name not in added})

    called.__signature__ = inspect.Signature(list(flat.values()))  # type: ignore[attr-defined]
    called.__annotations__ = {name: parameter.annotation for name, parameter in flat.items()}
    return called


def _parameter(name: str, declared: Any, hint: Any) -> Parameter:
    shown = declared
    if isinstance(declared, Field):
        shown = declared.metadata["shown"]
        if declared.default is False and not shown.param_decls:
            shown.param_decls = (f"--{name.replace('_', '-')}",)  # and no --no- form
    return Parameter(name, Parameter.KEYWORD_ONLY, default=shown, annotation=hint)


def names(group: str) -> list[str]:
    """Return the names in an entry-point group; `palate.specs` says what they stand for."""
    from importlib.metadata import entry_points  # help reads none, and it costs as much as typer

    return sorted({point.name for point in entry_points(group=group)})


def names_in(group: str) -> Callable[[str], list[str]]:
    """Return what completes a value by the names in an entry-point group.

    >>> names_in("palate.benchmarks")("tas")
    ['tasting']
    """
    return lambda incomplete: [name for name in names(group) if name.startswith(incomplete)]


def command_of(flag: str) -> Any:
    """Return a command with this option alone, which loads no other; None for any other option."""
    group = next((group for group, flags in FLAGS.items() if flag in flags), None)
    if group is None:
        return None
    only: Any = typer.Option(..., *FLAGS[group], autocompletion=names_in(group))

    def complete(value: str = only) -> None:
        del value

    command = typer.Typer(add_completion=False)
    command.command(context_settings={"ignore_unknown_options": True})(complete)
    return get_command(command)
