"""Commands that are listed by a line of help, and imported when they are called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from pkgutil import resolve_name
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from palate.cli.completion import command_of
from palate.cli.recipe import Option, file_options
from palate.errors import UsageError

MOST_SHOWN = 24
"""Options that `--help` shows; the others are shown by `--help-all`."""
RARE = (
    *("max_line", "trust_remote_code", "attention", "template_date", "chat_template"),
    *("batch_tokens", "order_as_in_file", "skip_bad_rows", "revision", "source", "engine"),
    *("max_cost", "retry_unscored", "device", "vote", "pairs", "posts", "noise_rows", "ask_again"),
    *("repeats", "shots", "layout", "columns", "requests", "cache", "choices", "split"),
    *("max_unscored", "save_every", "tensorboard", "value_learning_rate", "gae_lambda"),
    *("clip_range", "kl_target", "warmup", "minibatches", "epochs", "micro_batch"),
    *("answers_per_prompt", "evaluate_on", "evaluations", "raw", "missing_eos", "mirrors"),
    *("keep_ids", "licence", "attempts", "apart"),
    *("since", "until", "shard"),
)
"""Options that rarely change, those that are hidden first before the others."""


class LazyCommand(TyperCommand):
    """A command whose callback returns what it stands for: a function, or a group."""

    def load(self) -> Any:
        """Return the command itself."""
        assert self.callback is not None
        loaded = self.callback()
        if not isinstance(loaded, typer.Typer):
            group = typer.Typer(add_completion=False)
            group.command(self.name)(_with_recipe(loaded))
            loaded = group
        return get_command(loaded)

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> Any:
        """Return a context of the command itself, in which it is called or completed."""
        if extra.get("resilient_parsing"):
            flag = args[-1] if args else ""
            return (command_of(flag) or self.load()).make_context(info_name, args, parent, **extra)
        path, root = (info_name or "").split(), parent
        while root is not None and root.parent is not None:
            path, root = [root.info_name, *path], root.parent
        command = self.load()
        if not isinstance(command, TyperGroup):
            if "--help-all" not in args:
                _hide_rare(command)
            commands = path if root is None else root.command.list_commands(root)
            extra["default_map"] = file_options(path, _options(command), args, commands)
        context = command.make_context(info_name, args, parent, **extra)
        refuse_non_finite(context)
        return context


class CommandsOfTwoWords(TyperGroup):
    """A group in which `export` is a command, and `export rewardbench` another."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the words after it."""
        both = " ".join(args[:2])
        if both in self.commands:
            return both, self.commands[both], args[2:]
        seconds = [name.split()[1] for name in self.commands if name.startswith(f"{args[0]} ")]
        if seconds and args[1:] and not args[1].startswith("-"):
            raise UsageError(f"{both}: no command (known: {', '.join(seconds)}; or options alone)")
        return super().resolve_command(ctx, args)


def _with_recipe(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--recipe`, and `--help-all` where there are more options than `--help` shows."""
    hints = get_type_hints(command, include_extras=True)
    known = inspect.signature(command).parameters.values()
    added: dict[str, Any] = {"recipe": Recipe}
    if len(known) + 2 > MOST_SHOWN:  # with --help and --recipe
        added["help_all"] = HelpAll
    none = dict.fromkeys(added)

    @wraps(command)
    def called(**given: Any) -> None:
        command(**{name: value for name, value in given.items() if name not in added})

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [each.replace(annotation=hints[each.name], kind=kind) for each in known]
    parameters += [
        inspect.Parameter(name, kind, default=none[name], annotation=hint)
        for name, hint in added.items()
    ]
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _show_all(context: typer.Context, asked: bool | None) -> None:
    if asked:
        typer.echo(context.get_help())
        raise typer.Exit


Recipe = Annotated[
    Path | None,
    typer.Option(help="TOML file of options; palate.toml has a table for each command."),
]
HelpAll = Annotated[
    bool | None,
    typer.Option(
        "--help-all", callback=_show_all, is_eager=True, help="Show the options that rarely change."
    ),
]


def _options(command: Any) -> dict[str, Option]:
    """Return the options of a command, named without their dashes."""
    return {
        name.removeprefix("--"): Option(str(option.name), getattr(option, "multiple", False))
        for option in command.params
        for name in option.opts
        if name.startswith("--")
    }


def _hide_rare(command: Any) -> None:
    by_name = {option.name: option for option in command.params}
    hidden = len(by_name) + 1 - MOST_SHOWN  # and --help
    rare = [by_name[name] for name in RARE if name in by_name and not by_name[name].required]
    for option in rare[: max(0, hidden)]:
        option.hidden = True


def refuse_non_finite(context: Any) -> None:
    """Raise `UsageError` for an option that was given NaN or infinity, whatever it means."""
    for option in context.command.params:
        given = context.params.get(option.name)
        for value in given if isinstance(given, list | tuple) else (given,):
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{max(option.opts, key=len)} {value}: expected a finite number")


def add_lazy(group: typer.Typer, name: str, line: str, target: str, *given: Any) -> None:
    """Add a command: `target` is `module:attribute`, or called with `given` returns the command."""

    def load() -> Any:
        command = resolve_name(target)
        return command(*given) if given else command

    group.command(name, cls=LazyCommand, help=line)(load)


def lazy_group(line: str, commands: Mapping[str, tuple[str, str]]) -> typer.Typer:
    """Return a group of commands, each by where it is and its line of help."""
    group = typer.Typer(no_args_is_help=True, add_completion=False, help=line)
    group.callback()(lambda: None)  # else a group of a single command is that command
    for name, (target, text) in commands.items():
        add_lazy(group, name, text, f"palate.cli.{target}")
    return group
