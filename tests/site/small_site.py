"""A small repository with all that the site is built from."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = {
    "README.md": "# palate\n\n[Data](docs/data.md#files), ![picture](docs/picture.svg)\n",
    "docs/data.md": "# Data\n\n## Files\n\n[Start](../README.md), [code](../src/palate/end.py)\n",
    "docs/python.md": "# Python\n\n## Functions\n\n### end\n\nAs the source says.\n",
    "docs/picture.svg": "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'></svg>\n",
    "src/palate/__init__.py": '"""A package."""\n',
    "src/palate/__init__.pyi": "from palate.end import end as end\n",
    "src/palate/end.py": (
        '"""The end."""\n\n\ndef end(word: str) -> None:\n'
        '    """End with a word (`docs/data.md`).\n\n    >>> end("so")\n\n    Raises:\n'
        "        ValueError: without a word,\n            or for a long one.\n"
        '        And what printing raises.\n    """\n'
    ),
}


def small_repository(root: Path, **more: str) -> Path:
    """Write a repository with two pages and a reference; text is added to the page of data."""
    settings = (ROOT / "tools" / "site" / "zensical.toml").read_text(encoding="utf-8")
    menu = 'nav = ["README.md", "docs/data.md", "docs/python.md"]\n\n[project.theme]'
    settings = re.sub(r"^nav = .*?^\[project.theme\]", menu, settings, flags=re.S | re.M)
    files = {**PAGES, "tools/site/zensical.toml": settings}
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + more.get(path.stem, ""), encoding="utf-8")
    return root
