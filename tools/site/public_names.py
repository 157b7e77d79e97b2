"""The public names, read from the stub and never imported: where the source defines each."""

from __future__ import annotations

import ast
from pathlib import Path


def public_names(source: Path) -> dict[str, str]:
    """Return the module that each name of `import palate` comes from."""
    body = ast.parse((source / "palate" / "__init__.pyi").read_text(encoding="utf-8")).body
    return {
        alias.name: node.module or ""
        for node in body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def defined_in(source: Path, module: str, name: str) -> str:
    """Return the full name of what a module defines, or passes on, under a name.

    A package passes on names of its own modules, and one of these may bear the same name.

    Raises:
        LookupError: The module neither defines nor imports it.
    """
    file = source.joinpath(*module.split("."))
    package = file.is_dir()
    path = file / "__init__.py" if package else file.with_suffix(".py")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return defined_in(source, _absolute(module, node, package=package), alias.name)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return f"{module}.{name}"
    raise LookupError(f"{module} has no {name}")


def _absolute(module: str, node: ast.ImportFrom, *, package: bool) -> str:
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    parts = parts[: len(parts) - node.level + package]
    return ".".join((*parts, *(node.module or "").split("."))).rstrip(".")
