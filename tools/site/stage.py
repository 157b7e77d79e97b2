"""Copy the pages of the site into one tree, in which they keep their places in the repository.

Links between pages therefore stay as GitHub reads them. A link to source code or to a folder leads
to a page that is written here. In the reference of Python the text of each name gives way to
`::: PATH`, which the build replaces with what the source says.
"""

from __future__ import annotations

import posixpath
import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from public_names import defined_in, public_names

HERE = Path(__file__).resolve().parent
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", "docs", "studies")
SETTINGS = "tools/site/zensical.toml"
PYTHON = "docs/python.md"
COPIED = (".png", ".svg", ".json", ".csv")
"""Files that a browser shows, or keeps, as they are."""
LANGUAGES = {".py": "python", ".cff": "yaml", ".yml": "yaml", ".toml": "toml", ".txt": "", "": ""}
"""Files that a link may lead to: each becomes a page that holds its text."""
LINK = re.compile(r"(\]\()([\w./-]+)((?:#[^)\s]*)?\))")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.DOTALL | re.MULTILINE)


class SiteError(Exception):
    """What keeps the site from being built, a line for each fault."""


def stage(root: Path, tree: Path, *, url: str = "") -> int:
    """Write all that the build reads into a folder, and return the number of pages.

    Raises:
        SiteError: The menu lacks a page, or names one that does not exist; a name of Python's
            reference is not public.
    """
    settings = (root / SETTINGS).read_text(encoding="utf-8")
    names = sorted(_pages(root))
    if faults := menu_faults(names, tomllib.loads(settings)["project"]["nav"]):
        raise SiteError("\n".join(faults))
    pages = tree / "pages"
    for name in names:
        text = (root / name).read_text(encoding="utf-8")
        text = _with_names(text, root / "src") if name == PYTHON else text
        _write(pages / name, _linked(text, name, root, pages))
    for source in _files(root):
        if source.suffix in COPIED:
            target = pages / source.relative_to(root)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
    for name in ("palate.css", "palate.svg"):
        shutil.copyfile(HERE / name, pages / name)
    (tree / "src").symlink_to(root / "src")
    address = f"[project]\nsite_url = {_quoted(url)}" if url else "[project]"
    _write(tree / "zensical.toml", settings.replace("[project]", address, 1))
    return len(names)


def menu_faults(pages: list[str], menu: list[Any]) -> list[str]:
    """Return a line for each page that the menu lacks, and for each that it has in vain."""
    listed = list(_places(menu))
    missing = [page for page in pages if page not in listed]
    gone = [page for page in listed if page not in pages]
    twice = sorted({page for page in listed if listed.count(page) > 1})
    return [
        *(f"{page}: not in the menu; add it to nav in {SETTINGS}" for page in missing),
        *(f"{page}: in the menu of {SETTINGS}, and no such page" for page in gone),
        *(f"{page}: twice in the menu of {SETTINGS}" for page in twice),
    ]


def _places(menu: Any) -> Iterator[str]:
    if isinstance(menu, str):
        yield menu
        return
    for part in menu.values() if isinstance(menu, dict) else menu:
        yield from _places(part)


def _files(root: Path) -> Iterator[Path]:
    for name in PAGES:
        path = root / name
        yield from sorted(path.rglob("*")) if path.is_dir() else [path] if path.exists() else []


def _pages(root: Path) -> Iterator[str]:
    for path in _files(root):
        if path.suffix == ".md":
            yield path.relative_to(root).as_posix()


def _linked(text: str, page: str, root: Path, pages: Path) -> str:
    """Return a page whose links to source code and folders lead to pages that are written here."""

    def lead(link: re.Match[str]) -> str:
        start, target, end = link.groups()
        place = posixpath.normpath(posixpath.join(posixpath.dirname(page), target))
        path = root / place
        if place.startswith("..") or not path.exists():
            return link[0]
        if path.is_dir():
            if not (path / "README.md").exists():
                _write(pages / place / "README.md", _listing(path))
            return f"{start}{target.rstrip('/')}/README.md{end}"
        if path.suffix not in LANGUAGES:
            return link[0]
        block = f"````{LANGUAGES[path.suffix]}\n{path.read_text('utf-8')}````"
        _write(pages / f"{place}.md", f"# {path.name}\n\n`{place}`\n\n{block}\n")
        return f"{start}{target}.md{end}"

    spans, last = [], 0
    for code in CODE.finditer(text):
        spans += [LINK.sub(lead, text[last : code.start()]), code[0]]
        last = code.end()
    return "".join((*spans, LINK.sub(lead, text[last:])))


def _listing(folder: Path) -> str:
    files = sorted(path.name for path in folder.iterdir() if path.suffix in COPIED)
    return "\n".join([f"# {folder.name}", "", *(f"- [{name}]({name})" for name in files), ""])


def _with_names(text: str, source: Path) -> str:
    """Return the reference of Python with what the source says of each name.

    Raises:
        SiteError: A section's name is not public, or the stub's module lacks it.
    """
    names = public_names(source)
    head, *sections = re.split(r"^### ", text, flags=re.MULTILINE)
    parts = [head]
    for section in sections:
        name = section.split("\n", 1)[0]
        if name not in names:
            raise SiteError(f"{PYTHON}: no public name {name}; run python tools/reference.py")
        groups = "".join(re.findall(r"^## .*$", section, flags=re.MULTILINE))
        try:
            place = defined_in(source, names[name], name)
        except LookupError as error:
            raise SiteError(f"src/palate/__init__.pyi: {error.args[0]}") from error
        options = f"    options:\n      heading: {name}\n      toc_label: {name}\n"
        parts.append(f'<a id="{name}"></a>\n\n::: {place}\n{options}\n{groups}\n\n')
    return "".join(parts)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
