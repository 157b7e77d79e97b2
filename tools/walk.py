"""Follow one name through the code: which files it enters, and how often it comes back.

    python tools/walk.py FUNCTION NAME …
    python tools/walk.py evaluate benchmark best_of_n samples

Read from the syntax tree; nothing is run. The walk goes, depth first and in the order in which they
are written, into every function of palate that is handed the value, under whatever name, or what a
call makes of it whose first argument it is; into each function once. A stay is a stretch of calls
in one file; an entry into a file that was left is a return.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).resolve().parents[1] / "src"
PACKAGE = "palate"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Place(NamedTuple):
    """A definition: its module, its class if it has one, and its name."""

    module: str
    owner: str | None
    name: str


@dataclass
class Module:
    """What one file defines and imports."""

    tree: ast.Module
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By local name, the module that it comes from and its name there."""
    functions: dict[tuple[str | None, str], Function] = field(default_factory=dict)
    classes: set[str] = field(default_factory=set)


@dataclass
class Walk:
    """The route of one parameter."""

    stays: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    seen: set[Place] = field(default_factory=set)

    @property
    def entries(self) -> Counter[str]:
        """How often each file was entered."""
        return Counter(self.stays)

    @property
    def returns(self) -> int:
        """Entries into a file that was left before."""
        return len(self.stays) - len(set(self.stays))

    def into(self, place: Place, parameters: Sequence[str]) -> None:
        """Enter a function by these parameters, and whatever it hands them to."""
        if place in self.seen:
            return
        self.seen.add(place)
        if not self.stays or self.stays[-1] != place.module:
            self.stays.append(place.module)
        function = read(place.module).functions[place.owner, place.name]
        carried = set(parameters)
        self.names += [name for name in parameters if name not in self.names]
        for call, targets in _calls(function):
            handed = [*_handed(call, carried)]
            if not handed:
                continue
            if handed[0] == 0:
                carried |= set(targets)
                self.names += [name for name in targets if name not in self.names]
            callee = _callee(call, place)
            if callee is not None:
                self.into(callee, _parameters(callee, handed))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the walk of each pair of function and parameter."""
    words = sys.argv[1:] if arguments is None else arguments
    if not words or len(words) % 2:
        sys.stderr.write(__doc__ or "")
        return 2
    for name, parameter in zip(words[::2], words[1::2], strict=True):
        route = walk(name, parameter)
        sys.stdout.write(
            f"{name} {parameter}: {len(route.entries)} files, {len(route.stays)} stays, "
            f"{route.returns} returns, {len(route.names)} names ({', '.join(route.names)})\n"
        )
        for number, module in enumerate(route.stays, start=1):
            again = " again" if module in route.stays[: number - 1] else ""
            sys.stdout.write(f"{number:4}  {module}{again}\n")
    return 0


def walk(name: str, parameter: str) -> Walk:
    """Return the route of a name in a public function; raises `ValueError` for none."""
    doors = sorted((SOURCE / PACKAGE).glob("*/__init__.py"))
    imports = read(PACKAGE).imports
    for door in doors if name not in imports else ():
        imports = {**read(f"{PACKAGE}.{door.parent.name}").imports, **imports}
    if name not in imports:
        raise ValueError(f"palate has no function {name} (known: {', '.join(sorted(imports))})")
    module, name = _defined(*imports[name])
    place = Place(module, None, name)
    function = read(module).functions[None, name]
    arguments = {each.arg for each in ast.walk(function) if isinstance(each, ast.arg)}
    bound = {each.id for each in ast.walk(function) if isinstance(each, ast.Name)}
    if parameter not in arguments | bound:
        raise ValueError(f"{name}: no name {parameter} in it")
    route = Walk()
    route.into(place, [parameter])
    return route


@cache
def read(module: str) -> Module:
    """Return what a module defines and imports."""
    path = SOURCE / Path(*module.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    if module == PACKAGE:
        file = file.with_suffix(".pyi")  # names are imported when they are first used
    tree = ast.parse(file.read_text(encoding="utf-8"))
    there = Module(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            for alias in node.names:
                there.imports[alias.asname or alias.name] = (node.module or "", alias.name)
    for node in tree.body:
        if isinstance(node, Function):
            there.functions[None, node.name] = node
        elif isinstance(node, ast.ClassDef):
            there.classes.add(node.name)
            there.functions |= {
                (node.name, each.name): each for each in node.body if isinstance(each, Function)
            }
    return there


def _defined(module: str, name: str) -> tuple[str, str]:
    """Follow an import through doors to where the name is defined."""
    there = read(module)
    if (None, name) in there.functions or name in there.classes or name not in there.imports:
        return module, name
    return _defined(*there.imports[name])


def _calls(function: Function) -> Iterator[tuple[ast.Call, list[str]]]:
    """Yield every call with the names that its statement binds, as they are written."""
    for statement in ast.walk(function):
        targets: list[ast.expr] = []
        value: ast.AST | None = None
        if isinstance(statement, ast.Assign):
            targets, value = statement.targets, statement.value
        elif isinstance(statement, (ast.AnnAssign, ast.NamedExpr)) and statement.value:
            targets, value = [statement.target], statement.value
        elif isinstance(statement, (ast.Return, ast.Expr)) and statement.value:
            value = statement.value
        elif isinstance(statement, (ast.For, ast.comprehension)):
            value = statement.iter
        elif isinstance(statement, (ast.If, ast.While)):
            value = statement.test
        elif isinstance(statement, ast.withitem):
            value = statement.context_expr
        if value is None:
            continue
        bound = [
            node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)
        ]
        for node in ast.walk(value):
            if isinstance(node, ast.Call):
                yield node, bound if node is value else []


def _handed(call: ast.Call, carried: set[str]) -> Iterator[int | str]:
    """Yield the position or the name of each argument that is a carried name."""
    for position, argument in enumerate(call.args):
        if isinstance(argument, ast.Name) and argument.id in carried:
            yield position
    for keyword in call.keywords:
        if isinstance(keyword.value, ast.Name) and keyword.value.id in carried and keyword.arg:
            yield keyword.arg


def _callee(call: ast.Call, here: Place) -> Place | None:
    """Return the function of palate that is called, where the tree tells which."""
    function, there = call.func, read(here.module)
    if isinstance(function, ast.Name):
        module, name = here.module, function.id
        if name in there.imports:
            module, name = _defined(*there.imports[name])
        return _function(module, None, name)
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
        owner = function.value.id
        if owner in ("self", "cls") and here.owner is not None:
            return _function(here.module, here.owner, function.attr)
        if owner in there.imports:
            module, owner = _defined(*there.imports[owner])
            return _function(module, owner, function.attr)
        if owner in there.classes:
            return _function(here.module, owner, function.attr)
    return None


def _function(module: str, owner: str | None, name: str) -> Place | None:
    there = read(module)
    if (owner, name) in there.functions:
        return Place(module, owner, name)
    if owner is None and name in there.classes and (name, "__init__") in there.functions:
        return Place(module, name, "__init__")
    return None


def _parameters(place: Place, handed: Sequence[int | str]) -> list[str]:
    arguments = read(place.module).functions[place.owner, place.name].args
    listed = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    if place.owner is not None and listed[:1] in (["self"], ["cls"]):
        listed = listed[1:]
    names = []
    for at in handed:
        if isinstance(at, str):
            names.append(at)
        elif at < len(listed):
            names.append(listed[at])
    return names


if __name__ == "__main__":
    raise SystemExit(main())
