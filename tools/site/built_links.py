"""Check what was built: every link, image and reference of every page leads somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

REFERENCE = re.compile(r"\[[^\[\]]*\]\[[\w.]*\w\]")
LOADED = {("img", "src"), ("script", "src"), ("link", "href"), ("source", "src"), ("iframe", "src")}
ADDRESSES = {"canonical", "prev", "next"}
"""Kinds of `link` that a browser does not load."""


class Page(HTMLParser):
    """The links, anchors, and unresolved references of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.references: list[str] = []
        self._code = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note where an element leads, and how it is called."""
        values = dict(attrs)
        self._code += tag in ("code", "pre", "script", "style")
        self.anchors.update(values[key] or "" for key in ("id", "name") if key in values)
        for key in ("href", "src"):
            target = values.get(key)
            if target is None or (tag == "link" and values.get("rel") in ADDRESSES):
                continue
            (self.loaded if (tag, key) in LOADED else self.links).append(target)

    def handle_endtag(self, tag: str) -> None:
        """Leave a block of code."""
        self._code -= tag in ("code", "pre", "script", "style")

    def handle_data(self, data: str) -> None:
        """Note references that stand in the text as they were written."""
        if not self._code:
            self.references += REFERENCE.findall(data)


def check(site: Path) -> tuple[int, list[str]]:
    """Return the number of links of a built site, and a line for each that leads nowhere."""
    paths = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    faults: list[str] = []
    for path, page in pages.items():
        name = path.relative_to(site).parent.as_posix()
        elsewhere = [target for target in page.loaded if urlsplit(target).netloc]
        faults += [f"{name}: dead reference: {text}" for text in page.references]
        faults += [f"{name}: loaded from another server: {target}" for target in elsewhere]
        for target in (*page.links, *page.loaded):
            faults += [f"{name}: {fault}" for fault in _fault(site, path, target, pages)]
    links = sum(len(page.links) + len(page.loaded) for page in pages.values())
    return links, list(dict.fromkeys(faults))


def _fault(site: Path, path: Path, target: str, pages: dict[Path, Page]) -> Iterator[str]:
    """Yield what is wrong with a target, unless it lies on another site."""
    parts = urlsplit(target)
    if parts.scheme or parts.netloc:
        return
    file = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    file = file / "index.html" if file.is_dir() else file
    if not file.is_relative_to(site) or not file.is_file():
        yield f"dead link or image: {target}"
    elif parts.fragment and file in pages and unquote(parts.fragment) not in pages[file].anchors:
        yield f"dead anchor: {target}"
