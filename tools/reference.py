"""Write the references of the command line and of Python from the program itself.

    python tools/reference.py [FOLDER]

Writes docs/commands.md and docs/python.md; a test says whether they are up to date. Options come
from the commands that typer builds. Names, fields and signatures come from the source of what
`import palate` offers.
"""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
import types
import typing
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

from numpy.typing import ArrayLike
from typer.main import get_command

import palate
from palate.cli import app

FOLDER = Path(__file__).resolve().parents[1] / "docs"
MANY = 5
"""An option of so many commands or more is described once, under the shared options."""
VALUES = {str: "TEXT", int: "N", float: "NUMBER", Path: "PATH"}
REQUIRED = "**required**"
WIDTH = 88
COMMANDS = """\
# The command line

This page is written by `python tools/reference.py` from the program itself, as `--help` is.
A value in `CAPITALS` is yours, and `a|b` is a choice.
Options that many commands share stand [at the end](#shared-options).

`--help` shows at most 24 options of a command, and `--help-all` shows all.
Options may stand [in a file](evaluate.md#options-in-a-file).
A command ends with an [exit code](errors.md).
`palate --version` prints the version, and `palate --install-completion` completes names in a shell.
"""
PYTHON = """\
# Python

This page is written by `python tools/reference.py` from the source.
Everything here is an attribute of `palate`, and [Evaluate](evaluate.md#in-python) shows it in use.
Names in other modules may move; these stay.
"""


@dataclass(frozen=True)
class Option:
    """An option or an argument as it is printed."""

    name: str
    default: str
    meaning: str
    panel: str

    def row(self) -> str:
        """Return the row of a table."""
        cells = (f"`{self.name}`", self.default, self.meaning)
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


@dataclass(frozen=True)
class Command:
    """A command with its options, in the order of its help."""

    name: str
    help: str
    options: tuple[Option, ...]


def commands(group: Any, prefix: str = "palate") -> Iterator[Command]:
    """Yield every command below a group."""
    for name, listed in group.commands.items():
        command = listed.load() if hasattr(listed, "load") else listed
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix} {name}")
        else:
            options = tuple(_options(command))
            yield Command(f"{prefix} {name}", inspect.cleandoc(command.help or ""), options)


def _options(command: Any) -> Iterator[Option]:
    function = inspect.unwrap(command.callback, stop=lambda layer: hasattr(layer, "__signature__"))
    hints = typing.get_type_hints(function)
    for parameter in command.params:
        if getattr(parameter, "hidden", False) or parameter.name == "help":
            continue
        value = parameter.metavar or _value(hints[parameter.name])
        named = parameter.param_type_name == "option"
        names = ", ".join(sorted(parameter.opts, key=len)) if named else parameter.name.upper()
        yield Option(
            name=f"{names} {value}".strip() if named else f"{names}{'…' * _repeats(parameter)}",
            default=REQUIRED if parameter.required else _default(parameter),
            meaning=" ".join((parameter.help or "").split()),
            panel=getattr(parameter, "rich_help_panel", None) or "Options",
        )


def _repeats(argument: Any) -> bool:
    return bool(argument.nargs == -1)


def _value(hint: Any) -> str:
    """Return what stands for a value of a type: nothing for a flag."""
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    if typing.get_origin(hint) in (typing.Union, types.UnionType, list):
        return _value(parts[0])
    if typing.get_origin(hint) is tuple:
        return " ".join(map(_value, parts))
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "|".join(str(member.value) for member in hint)
    return VALUES.get(hint, "")


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return str(parameter.show_default)
    value = parameter.default
    if value is None or value is False or callable(value):
        return ""
    if isinstance(value, list | tuple):
        return " ".join(f"`{item}`" for item in value)
    return f"`{value.value if isinstance(value, enum.Enum) else value}`"


def command_page() -> str:
    """Return the reference of the command line."""
    listed = list(commands(get_command(app)))
    alike: dict[tuple[Option, ...], list[Command]] = {}
    for command in listed:
        alike.setdefault(command.options, []).append(command)
    uses = Counter(option for options in alike for option in options)
    shared = [option for option, n in uses.items() if n >= MANY and option.default != REQUIRED]
    parts = [COMMANDS, "| command | what it does |\n|---|---|"]
    for same in alike.values():
        for command in same:
            anchor = _title(same).replace("`", "").replace(",", "").replace(" ", "-")
            first = command.help.split("\n\n")[0].replace("\n", " ")
            parts.append(f"| [`{command.name}`](#{anchor}) | {first} |")
    for options, same in alike.items():
        parts.append(f"\n## {_title(same)}\n\n{same[0].help if len(same) == 1 else ''}".rstrip())
        parts += _tables([option for option in options if option not in shared])
        if names := [option.name for option in options if option in shared]:
            parts.append(f"\n[Shared options](#shared-options): {_flags(names)}.")
    parts.append("\n## Shared options")
    parts += _tables(shared)
    return "\n".join(parts) + "\n"


def _title(same: list[Command]) -> str:
    first, *others = (command.name for command in same)
    return ", ".join(f"`{name}`" for name in (first, *(name.split()[-1] for name in others)))


def _flags(names: list[str]) -> str:
    """Return the long names of options, without values."""
    words = (name.replace(",", "").split() for name in names)
    return ", ".join(f"`{max((w for w in flags if w[0] == '-'), key=len)}`" for flags in words)


def _tables(options: list[Option]) -> Iterator[str]:
    panels = dict.fromkeys(option.panel for option in options)
    for panel in panels:
        title = "option" if panel == "Options" else panel
        yield f"\n| {title} | default | what it does |\n|---|---|---|"
        yield from (option.row() for option in options if option.panel == panel)


def python_page() -> str:
    """Return the reference of what `import palate` offers."""
    things = [(name, getattr(palate, name)) for name in palate.__all__]
    functions = [(name, thing) for name, thing in things if not isinstance(thing, type)]
    classes = [(name, thing) for name, thing in things if isinstance(thing, type)]
    parts = [PYTHON, "## Functions"]
    for name, function in functions:
        (node,) = ast.parse(dedent(inspect.getsource(function))).body
        assert isinstance(node, ast.FunctionDef)
        _with_shared_options(node.args, function)
        _with_values(node.args, inspect.unwrap(function).__globals__)
        parts.append(f"\n### {name}\n\n```py\n{_signature(node)}\n```\n")
        parts.append(_prose(inspect.getdoc(function) or ""))
    parts.append("\n## Classes")
    for name, cls in classes:
        parts.append(f"\n### {name}\n\n{_prose(inspect.getdoc(cls) or '')}")
        parts += _members(cls)
    return "\n".join(parts) + "\n"


def _prose(doc: str) -> str:
    """Return a docstring as Markdown: paragraphs, examples in blocks, errors as a list."""
    text, *sections = re.split(r"^(Args|Raises|Example):$", doc, flags=re.MULTILINE)
    parts = [_examples(text)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        lines = dedent(body).strip("\n")
        if title == "Example":
            parts.append(_examples(lines))
            continue
        listed = re.findall(r"^(\w+): (.*(?:\n .*)*)", lines, flags=re.MULTILINE)
        rest = re.sub(r"^\w+: .*(?:\n .*)*", "", lines, flags=re.MULTILINE).strip()
        items = [f"- `{name}`: {' '.join(meaning.split())}" for name, meaning in listed]
        parts.append("\n".join([f"{title}:", "", *items]) + (f"\n\n{rest}" if rest else ""))
    return "\n\n".join(part for part in parts if part)


def _examples(text: str) -> str:
    """Return paragraphs, with those that are examples in blocks; pages become links."""
    linked = re.sub(r"`docs/(\w+)\.md`", lambda page: f"[{page[1]}]({page[1]}.md)", text.strip())
    return "\n\n".join(
        f"```pycon\n{part}\n```" if part.startswith(">>>") else part
        for part in re.split(r"\n\n+", linked)
    )


def _signature(node: ast.FunctionDef, *, width: int = WIDTH) -> str:
    """Return a function's name and parameters, one a line where one line is too long."""
    arguments = node.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments.args = arguments.args[1:]
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    pieces = [*_pieces(arguments)]
    short = f"{node.name}({', '.join(pieces)}){returns}"
    if len(short) <= width:
        return short
    return "\n".join((f"{node.name}(", *(f"    {piece}," for piece in pieces), f"){returns}"))


def _with_shared_options(arguments: ast.arguments, function: Any) -> None:
    """Write out what `**options: Unpack[…]` takes, as `checked` does."""
    if arguments.kwarg is None:
        return
    named = {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name not in named and parameter.kind is parameter.KEYWORD_ONLY:
            annotation = re.sub(r"\b(?:\w+\.)+", "", inspect.formatannotation(parameter.annotation))
            hint = ast.parse(annotation, mode="eval").body
            arguments.kwonlyargs.append(ast.arg(parameter.name, hint))
            arguments.kw_defaults.append(ast.parse(repr(parameter.default), mode="eval").body)
            arguments.kwarg = None


def _with_values(arguments: ast.arguments, names: dict[str, Any]) -> None:
    """Put the values of constants, and the types that a name joins, in the place of their names."""
    for defaults in (arguments.defaults, arguments.kw_defaults):
        for place, default in enumerate(defaults):
            if isinstance(default, ast.Name):
                defaults[place] = ast.parse(repr(names[default.id]), mode="eval").body
    for node in ast.walk(arguments):
        if isinstance(node, ast.arg) and node.annotation is not None:
            node.annotation = _Joined(names).visit(node.annotation)


class _Joined(ast.NodeTransformer):
    """Writes out a name that stands for a union of types."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        joined = self.names.get(node.id)
        if not isinstance(joined, types.UnionType):
            return node
        return ast.parse(
            re.sub(r"\b(?:\w+\.)+", "", str(joined).replace(str(ArrayLike), "ArrayLike")),
            mode="eval",
        ).body


def _pieces(arguments: ast.arguments) -> Iterator[str]:
    """Yield the parameters of a function with their types and defaults."""
    plain = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults))
    yield from map(_piece, plain, [*missing, *arguments.defaults])
    if arguments.vararg:
        yield f"*{ast.unparse(arguments.vararg)}"
    elif arguments.kwonlyargs:
        yield "*"
    yield from map(_piece, arguments.kwonlyargs, arguments.kw_defaults)
    if arguments.kwarg:
        yield f"**{ast.unparse(arguments.kwarg)}"


def _piece(argument: ast.arg, default: ast.expr | None) -> str:
    text = ast.unparse(argument)
    return f"{text} = {ast.unparse(default)}" if default else text


def _members(cls: type[Any]) -> Iterator[str]:
    """Yield the tables of a class's fields and methods."""
    (node,) = ast.parse(dedent(inspect.getsource(cls))).body
    assert isinstance(node, ast.ClassDef)
    fields, methods = [], []
    for member, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(member, ast.AnnAssign) and not ast.unparse(member.target).startswith("_"):
            name, kind = ast.unparse(member.target), ast.unparse(member.annotation)
            default = f" = {ast.unparse(member.value)}" if member.value else ""
            fields.append((f"{name}: {kind}{default}", _text(following)))
        elif isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            plain = any(ast.unparse(mark) == "property" for mark in member.decorator_list)
            name = member.name if plain else _signature(member, width=10**6)
            methods.append((name, (ast.get_docstring(member) or "").split("\n\n")[0]))
    for title, rows in (("field", fields), ("method or property", methods)):
        if rows:
            yield f"\n| {title} | meaning |\n|---|---|"
            yield from (
                f"| `{name.replace('|', chr(92) + '|')}` | {' '.join(meaning.split())} |"
                for name, meaning in rows
            )


def _text(node: ast.stmt | None) -> str:
    """Return the text below a field, or nothing."""
    plain = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return str(node.value.value) if plain else ""  # type: ignore[union-attr,attr-defined]


def main() -> None:
    """Write both pages."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name, text in (("commands.md", command_page()), ("python.md", python_page())):
        (folder / name).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{folder / name}\n")


if __name__ == "__main__":
    main()
