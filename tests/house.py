"""The house: length of files, and totals that only fall.

A file over 400 lines needs a waiver with a reason. How lines are broken is the formatter's: what it
is kept from is counted. The totals stand in pyproject.toml under [tool.palate.house]: a change may
lower them, and an issue that names its growth may raise them.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = Path("src", "palate")
LIMIT = 400
WAIVER = "# house: long because "
UNFORMATTED = "# fmt: " + "skip"


def main() -> int:
    """Print each broken limit; return 1 where there is one."""
    texts = {
        path.relative_to(ROOT / PACKAGE): path.read_text(encoding="utf-8")
        for path in sorted((ROOT / PACKAGE).rglob("*.py"))
    }
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    bad = [*long_files(texts), *risen(totals(texts), project["tool"]["palate"]["house"])]
    sys.stdout.write(
        "\n".join(bad or ["files: within their limits; totals: none has risen"]) + "\n"
    )
    return bool(bad)


def long_files(texts: Mapping[Path, str]) -> Iterator[str]:
    """Yield a line for each file that is too long and says no reason."""
    for path, text in texts.items():
        lines = text.splitlines()
        waived = any(line.startswith(WAIVER) and line != WAIVER for line in lines[:5])
        if len(lines) > LIMIT and not waived:
            yield f"{PACKAGE / path}: {len(lines)} lines (limit {LIMIT})"


def totals(texts: Mapping[Path, str]) -> dict[str, float]:
    """Return the sums of the whole source: those that [tool.palate.house] bounds.

    >>> totals({Path("a", "b.py"): "import os\\n\\nf(x=x, y=of.y)\\n"})["keywords"]
    2
    """
    lines = sum(len(text.splitlines()) for text in texts.values())
    nodes = {path: list(ast.walk(ast.parse(text))) for path, text in texts.items()}
    imports = sum(
        (node.end_lineno or node.lineno) - node.lineno + 1
        for tree in nodes.values()
        for node in tree
        if isinstance(node, ast.Import | ast.ImportFrom)
    )
    return {
        "lines": lines,
        "files": len(texts),
        "rooms": len({path.parts[0] for path in texts if len(path.parts) > 1}),
        "inner_inits": sum(path.name == "__init__.py" and len(path.parts) > 1 for path in texts),
        "import_percent": round(100 * imports / lines, 1),
        "keywords": sum(
            passes_on(node)
            for path, tree in nodes.items()
            for node in tree
            if isinstance(node, ast.keyword) and path.parts[0] != "cli"
        ),
        "unformatted": sum(text.count(UNFORMATTED) for text in texts.values()),
    }


def passes_on(keyword: ast.keyword) -> bool:
    """Return whether a keyword only hands a value on: `x=x` or `x=of.x`."""
    value = keyword.value
    name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", None)
    return keyword.arg is not None and keyword.arg == name


def risen(measured: Mapping[str, float], bounds: Mapping[str, float]) -> Iterator[str]:
    """Yield a line for each total above its bound in pyproject.toml."""
    for name, value in measured.items():
        if value > bounds[name]:
            yield f"src: {name} {value:g}, pyproject.toml allows {bounds[name]:g}"


if __name__ == "__main__":
    sys.exit(main())
