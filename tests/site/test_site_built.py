"""The site of this repository: it is whole, reads as on GitHub, and Chromium has nothing to say."""

from __future__ import annotations

import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from small_site import ROOT
from typer.main import get_command

import palate
from palate.cli import app

pytest.importorskip("zensical", reason="needs pip install zensical mkdocstrings-python")

from browse import addresses, faults
from build_site import build
from public_names import defined_in, public_names

TAGS = ("li", "ul", "ol", "tr", "table", "pre", "img", "h2", "h3", "h4", "strong", "em", "code")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    build(ROOT, folder)
    return folder


class Article(HTMLParser):
    """Counts the tags, and gathers the text, of a page's article or of all."""

    def __init__(self, text: str, *, whole: bool = False) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.heads: list[str] = []
        self.text = ""
        self._head = False
        self._within = whole
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self._within |= tag == "article"
        if tag == "th":
            self._head = True
            self.heads.append("")
        if self._within:
            self.tags[tag] += 1
            self.text += f"\n#{dict(attrs)['id']}\n" if tag == "h2" and "id" in dict(attrs) else ""

    def handle_endtag(self, tag):
        self._within &= tag != "article"
        self._head &= tag != "th"

    def handle_data(self, data):
        self.text += data if self._within else ""
        if self._head:
            self.heads[-1] += data


def article(site: Path, page: str) -> Article:
    return Article((site / page / "index.html").read_text(encoding="utf-8"))


def test_every_page_has_the_parts_that_github_shows(site):
    parser = MarkdownIt("commonmark").enable("table")
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "studies").rglob("*.md")]
    for page in pages:
        name = page.relative_to(ROOT).with_suffix("").as_posix()
        if name == "docs/python":
            continue
        address = name.removesuffix("README") if name.endswith("README") else name
        shown = article(site, address).tags
        there = Article(parser.render(page.read_text(encoding="utf-8")), whole=True)
        assert {tag: shown[tag] for tag in TAGS} == {tag: there.tags[tag] for tag in TAGS}, name
        assert "" not in there.heads, f"{name}: a column without a name"
    assert len(pages) > 45


def test_every_public_name_is_there_with_its_docstring(site):
    page = (site / "docs" / "python" / "index.html").read_text(encoding="utf-8")
    text = " ".join(article(site, "docs/python").text.split())
    for name in palate.__all__:
        thing = getattr(palate, name)
        assert f'<a id="{name}"></a>' in page
        assert f'id="{thing.__module__}.{name}"' in page
        first = re.split(r"\.\s|\n\n", thing.__doc__ or "")[0].replace("`", "")
        assert " ".join(first.split()) in text, name


def test_every_public_name_is_found_where_it_is_defined():
    names = public_names(ROOT / "src")
    assert sorted(names) == palate.__all__
    for name, module in names.items():
        thing = getattr(palate, name)
        place = f"{thing.__module__}.{thing.__qualname__}"
        assert defined_in(ROOT / "src", module, name) == place


def leaves(group, prefix="palate"):
    for name, listed in group.commands.items():
        command = listed.load() if hasattr(listed, "load") else listed
        if hasattr(command, "commands"):
            yield from leaves(command, f"{prefix} {name}")
        else:
            yield f"{prefix} {name}", command


def test_every_option_of_every_command_is_there(site):
    text = article(site, "docs/commands").text
    anchors = dict(
        re.findall(
            r'<a href="#([^"]+)"><code>(palate [^<]+)</code>',
            (site / "docs" / "commands" / "index.html").read_text(encoding="utf-8"),
        )
    )
    places = {command: anchor for anchor, command in anchors.items()}
    listed = re.findall(r"^#(\S+)\n(.*?)(?=^#|\Z)", text, flags=re.DOTALL | re.MULTILINE)
    sections = dict(listed)
    options = 0
    for name, command in leaves(get_command(app)):
        (anchor,) = [key for key in sections if key == places.get(name)] or [
            key for key in sections if name.split()[-1] in key and key.startswith("palate-train")
        ]
        for parameter in command.params:
            if getattr(parameter, "hidden", False) or parameter.name == "help":
                continue
            flag = max(parameter.opts, key=len)
            word = flag if flag.startswith("-") else parameter.name.upper()
            assert re.search(rf"(?<![\w-]){re.escape(word)}(?![\w-])", sections[anchor]), (
                name,
                word,
            )
            options += 1
    assert options > 500


def test_chromium_has_nothing_to_say(site, browser):
    pages = addresses(site, every=9)
    assert pages[0] == ""
    assert faults(browser, site, pages) == []


def test_a_fault_in_the_browser_is_named(tmp_path, browser):
    (tmp_path / "index.html").write_text(
        '<html lang="en"><head><title>t</title><link rel="icon" href="data:,"></head><body>'
        '<main><article><h1>h</h1><p style="width: 3000px"><img src="http://127.0.0.1:9/a.png">'
        "</p><script>console.log('hm')</script></article></main></body></html>",
        encoding="utf-8",
    )
    kinds = {line.split(": ")[1] for line in faults(browser, tmp_path, [""])}
    assert kinds == {"request", "console", "scrolls sideways", "colours", "axe image-alt"}
