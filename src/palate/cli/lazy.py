"""Commands that are listed by a line of help, and imported when they are called."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from palate.cli.declare import command_of, flattened, option
from palate.errors import UsageError, first_line

MOST_SHOWN = 24
"""Options that `--help` shows; the others are shown by `--help-all`."""
RARE = (
    *("margin", "agreed", "max_line", "trust_remote_code", "attention", "compile"),
    *("template_date", "chat_template"),
    *("batch_tokens", "order_as_in_file", "revision", "source", "engine", "requests", "shard"),
    *("max_cost", "retry_unscored", "device", "pairs", "noise_rows", "ask_again", "repeats"),
    *("shots", "layout", "cache", "quoting", "posts_map"),
    *("max_unscored", "save_every", "tensorboard", "value_learning_rate", "gae_lambda"),
    *("clip_range", "kl_target", "warmup", "minibatches", "epochs", "answers_at_once"),
    *("answers_per_prompt", "evaluate_on", "evaluations", "raw", "missing_eos"),
    *("keep_ids", "licence", "attempts", "apart"),
    *("until", "since", "target", "disjoint_from", "mirrors", "split", "choices", "vote"),
    *("skip_bad_rows", "columns", "posts", "kinds", "pressure", "users"),
)
"""Options that rarely change, those that are hidden first before the others."""
USUAL = Path("palate.toml")
"""In the working directory: a table of options by command."""


def _show_all(context: typer.Context, asked: bool | None) -> None:
    if asked:
        typer.echo(context.get_help())
        raise typer.Exit


@dataclass(frozen=True)
class RecipeFile:
    """Where options are read from, beside the words of a command."""

    recipe: Path | None = option(
        None, "TOML file of options; palate.toml has a table for each command."
    )


@dataclass(frozen=True)
class HelpAll:
    """How all options are shown, where there are more than `--help` shows."""

    help_all: bool | None = option(
        None,
        "Show the options that rarely change.",
        "--help-all",
        callback=_show_all,
        is_eager=True,
    )


class LazyCommand(TyperCommand):
    """A command whose callback returns what it stands for: a function, or a group."""

    def load(self) -> Any:
        """Return the command itself."""
        assert self.callback is not None
        loaded = self.callback()
        if not isinstance(loaded, typer.Typer):
            function = flattened(loaded, in_file=RecipeFile)
            if len(function.__annotations__) >= MOST_SHOWN:  # without --help
                function = flattened(loaded, in_file=RecipeFile, shown=HelpAll)
            loaded = typer.Typer(add_completion=False)
            loaded.command(self.name)(function)
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
            extra["default_map"] = file_options(path, command, args, commands)
        context = command.make_context(info_name, args, parent, **extra)
        refuse_non_finite(context)
        return context


class CommandsOfTwoWords(TyperGroup):
    """A group in which `export` is a command, and `export rewardbench` another."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, for which no Markdown and no traceback is read."""
        import_help()
        super().format_help(ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the words after it."""
        both = " ".join(args[:2])
        if both in self.commands:
            return both, self.commands[both], args[2:]
        seconds = [name.split()[1] for name in self.commands if name.startswith(f"{args[0]} ")]
        if seconds and args[1:] and not args[1].startswith("-"):
            raise UsageError(f"{both}: no command (known: {', '.join(seconds)}; or options alone)")
        return super().resolve_command(ctx, args)


def import_help() -> None:
    """Import what prints help, without a parser, Pygments and attrs: a third of what help costs."""
    unused = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}
    unused = {module: name for module, name in unused.items() if module not in sys.modules}
    for module, name in unused.items():
        sys.modules[module] = ModuleType(module)
        setattr(sys.modules[module], name, type(name, (), {}))
    try:
        import_module("typer.rich_utils")
    finally:
        for module in unused:
            del sys.modules[module]  # whoever asks for it later gets rich's own


def _hide_rare(command: Any) -> None:
    by_name = {parameter.name: parameter for parameter in command.params}
    hidden = len(by_name) + 1 - MOST_SHOWN  # and --help
    rare = [by_name[name] for name in RARE if name in by_name and not by_name[name].required]
    for parameter in rare[: max(0, hidden)]:
        parameter.hidden = True


def refuse_non_finite(context: Any) -> None:
    """Raise `UsageError` for an option that was given NaN or infinity, whatever it means."""
    for parameter in context.command.params:
        given = context.params.get(parameter.name)
        for value in given if isinstance(given, list | tuple) else (given,):
            if isinstance(value, float) and not math.isfinite(value):
                flag = max(parameter.opts, key=len)
                raise UsageError(f"{flag} {value}: expected a finite number")


def add_lazy(
    group: typer.Typer, name: str, line: str, target: str, *given: Any, panel: str | None = None
) -> None:
    """Add a command: `target` is `module:attribute`, or called with `given` returns the command."""

    def load() -> Any:
        module, _, name = target.partition(":")
        command = getattr(import_module(f"palate.cli.{module}"), name)
        return command(*given) if given else command

    group.command(name, cls=LazyCommand, help=line, rich_help_panel=panel)(load)


def lazy_group(line: str, commands: Mapping[str, tuple[str, str]]) -> typer.Typer:
    """Return a group of commands, each by where it is and its line of help."""
    group = typer.Typer(no_args_is_help=True, add_completion=False, help=line)
    group.callback()(lambda: None)  # else a group of a single command is that command
    for name, (target, text) in commands.items():
        add_lazy(group, name, text, target)
    return group


def file_options(
    path: Sequence[str], command: Any, words: Sequence[str], commands: Sequence[str]
) -> dict[str, Any]:
    """Return the options of a command that stand in files, by the parameter's name.

    `path` is its name, such as `train`, `lore`. What `--recipe` says counts before `palate.toml`,
    and the command line before both. Raises `UsageError` for a file that cannot be read, and for an
    option that is unknown.
    """
    known = {
        name.removeprefix("--"): parameter
        for parameter in command.params
        for name in parameter.opts
        if name.startswith("--")
    }
    options: dict[str, Any] = {}
    if USUAL.is_file():
        table: Any = _read(USUAL)
        for name in table:
            _known(name, [each for each in commands if " " not in each], f"{USUAL}: no command")
        for name in path:
            table = table.get(name, {}) if isinstance(table, dict) else table
        for two in (name.split() for name in commands):
            if two[:-1] == [*path] and isinstance(table, dict):
                table.pop(two[-1], None)  # what `[export.rewardbench]` says to `export`
        options |= dict(_options(USUAL, table, known))
    recipe = recipe_words(words)
    if recipe is not None:
        options |= dict(_options(recipe, _read(recipe), known))
    return options


def recipe_words(words: Sequence[str]) -> Path | None:
    """Return the file that a command line names by `--recipe`.

    >>> recipe_words(["-b", "tasting", "--recipe", "mine.toml"])
    PosixPath('mine.toml')
    """
    for at, word in enumerate(words):
        if word == "--":
            return None
        name, _, value = word.partition("=")
        value = value or "".join(words[at + 1 : at + 2])
        if name == "--recipe" and value:
            return Path(value)
    return None


def _options(file: Path, given: Any, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    if not isinstance(given, dict):
        raise UsageError(f"{file}: expected a table of options by command, such as [evaluate]")
    for name, value in given.items():
        text = name.replace("_", "-")
        _known(text, list(known), f"{file}: no option")
        multiple = getattr(known[text], "multiple", False)
        if isinstance(value, list) and not multiple:
            raise UsageError(f"{file}: {name}: expected one value")
        yield known[text].name, [value] if multiple and not isinstance(value, list) else value


def _known(name: str, names: Sequence[str], what: str) -> None:
    if name not in names:
        near = get_close_matches(name, names, 1)
        hint = f"; did you mean {near[0]}?" if near else f" (known: {', '.join(sorted(names))})"
        raise UsageError(f"{what} {name!r}{hint}")


def _read(file: Path) -> dict[str, Any]:
    import tomllib  # few calls have a file

    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{file}: no readable TOML ({first_line(error)})") from error
