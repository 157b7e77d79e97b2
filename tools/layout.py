"""Draw the folders of src/palate in the order in which they may import each other.

    python tools/layout.py [FILE]

The floors are those of the import contract in pyproject.toml, and what a folder is for is the first
sentence of its docstring. Writes docs/images/layout.svg; a test says whether it is up to date.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from html import escape
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parents[1]
FILE = ROOT / "docs" / "images" / "layout.svg"
WIDTH, LEFT, TEXT, LINE, GAP = 800, 36, 172, 19, 6
LETTERS = 82
"""What fits beside a name, in characters."""
HEAD = """\
<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" \
viewBox="0 0 {width} {height}" role="img" aria-labelledby="title">
<title id="title">The floors of palate: a folder imports from floors below its own only.</title>
<style>
text {{ font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #3f4147 }}
.name {{ font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-weight: bold; fill: #111 }}
rect {{ fill: #f3f4f6; stroke: #d6d7db }}
.page {{ fill: #ffffff; stroke: none }}
path {{ fill: none; stroke: #0072b2; stroke-width: 2 }}
@media (prefers-color-scheme: dark) {{
text {{ fill: #c3c5cb }}
.name {{ fill: #f2f2f4 }}
rect {{ fill: #24262b; stroke: #43464e }}
.page {{ fill: #16171a }}
path {{ stroke: #56b4e9 }}
}}
</style>
<rect class="page" width="{width}" height="{height}"/>
<path d="M 16 {top} V {bottom} m -6 -8 l 6 8 l 6 -8"/>
"""


def floors() -> list[list[str]]:
    """Return the names on each floor, the highest floor first."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["type"] == "layers")
    return [[name.strip() for name in floor.split("|")] for floor in layers]


def purpose(name: str) -> str:
    """Return the first sentence of the docstring of a folder or file of palate."""
    path = ROOT / "src" / "palate" / name
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").replace("`", "")


def drawn(floor: list[str], top: int) -> tuple[list[str], int]:
    """Return a floor's box with the text in it, and where the next floor begins."""
    texts, y = [], top + 17
    for name in floor:
        texts.append(f'<text class="name" x="{LEFT + 10}" y="{y}">{name}</text>')
        for line in wrap(purpose(name), LETTERS):
            texts.append(f'<text x="{TEXT}" y="{y}">{escape(line)}</text>')
            y += LINE
    height = y - top - 9
    box = f'<rect x="{LEFT}" y="{top}" width="{WIDTH - LEFT - 8}" height="{height}" rx="4"/>'
    return [box, *texts], top + height + GAP


def picture() -> str:
    """Return the whole drawing."""
    parts: list[str] = []
    y = 8
    for floor in floors():
        box, y = drawn(floor, y)
        parts += box
    head = HEAD.format(width=WIDTH, height=y + 2, top=12, bottom=y - GAP)
    return head + "\n".join(parts) + "\n</svg>\n"


def main() -> int:
    """Write the drawing."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    target.write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
