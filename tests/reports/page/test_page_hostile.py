"""Whatever texts, names and ids hold: the page has palate's elements alone."""

from __future__ import annotations

from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markupsafe import Markup
from opened_page import page_of
from planted_runs import OWN, STRANGER, rows_of, save_run, write_rows

from palate.html import UNSAFE
from palate.reports import Table, printable
from palate.reports.numbers import plain
from palate.reports.page import render_page
from palate.reports.page_rows import BrowsedRows, Example, UserSide
from palate.reports.parts import Picture, Section, Text, inline
from palate.reports.plots import NOTHING, dumbbells
from palate.reports.plots import OWN as OWN_MARK
from palate.runs import ReportedEstimate

pytest.importorskip("matplotlib")

NASTY = (
    "</script><script>pwned = 1</script>", "<img src=x onerror=pwned=1>", "$\\frac{1}$",
    "\x1b[31mred\x1b[0m\x07\x00", "\u202eright to left\u2066", "]]>--><!--", "&lt;&#0;&quot;'\"`",
    "{{ 7 * 7 }}{% raw %}", "\ud800\uffff\ufdd0", "</title></style></svg></text>",
    "javascript:pwned=1", "a\r\nb\tc\u2028d", "🍵" * 9, " ", "W" * 400,
)  # fmt: skip
TEXTS = st.one_of(st.sampled_from(NASTY), st.text(max_size=40))


class Tags(HTMLParser):
    """The elements of a page with their attributes, in order; of drawings only that they are."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.seen: list[tuple[str, tuple[str, ...]]] = []
        self.words: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, tuple(sorted(name for name, _ in attrs))))

    def handle_endtag(self, tag):
        self.seen.append((f"/{tag}", ()))

    def handle_data(self, data):
        self.words.append(data)

    def handle_comment(self, data):
        self.seen.append(("comment", (data,)))


def table(text: str) -> Table:
    return Table(text, [text, f"{text} [95 %]"], [[text, plain(0.5)], [text, plain(None)]], [text])


@given(TEXTS)
def test_a_table_is_well_formed_and_escaped(text):
    html = f"<div>{table(text).html()}</div>"
    tags = [element.tag for element in ElementTree.fromstring(html).iter()]
    assert tags == [e.tag for e in ElementTree.fromstring(f"<div>{table('x').html()}</div>").iter()]
    assert not UNSAFE.search(html)


def rendered(text: str) -> str:
    row = ("U1", "00", [0.5], *([[text]] * 6))
    data = Markup("{}")
    parts = [
        Text(text), Text(text, "h3"), table(text),
        Example(
            [("user", text)], text, [UserSide("U1", [text], text, text)], text, table(text), text
        ),
        BrowsedRows("rows-1", [text], [text], [row], 1, 1, text, 40, data),
    ]  # fmt: skip
    return render_page(
        [Section("one", text, parts, text)], title=text, finding=text, limits=[text],
        facts=[(text, text)],
    )  # fmt: skip


@given(TEXTS.filter(bool))
@settings(max_examples=60)
def test_no_text_adds_an_element_or_an_attribute(text):
    html = rendered(text)
    assert Tags(html).seen == Tags(rendered("x")).seen
    assert not UNSAFE.search(html)
    assert "pwned" not in html or "pwned" in text
    words = "".join(Tags(html).words)
    assert printable(text).strip() in words.replace("\xa0", "\xa0")


@given(TEXTS, TEXTS)
@settings(max_examples=12)
@example("$\\frac{1}$", "</text></svg><script>pwned=1</script>")
@example("\x00\ud800", "\u202e")
def test_a_drawing_is_well_formed_and_brings_no_style(name, title):
    one = ReportedEstimate(value=0.6, low=0.5, high=0.7, n=9)
    rows = [(name, {NOTHING: one, OWN_MARK: one}), (title, {OWN_MARK: one})]
    drawing = dumbbells(rows, ignores_the_user=0.5)
    svg = inline(Picture("p", title, name, table("x"), drawing))
    root = ElementTree.fromstring(svg)
    kinds = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert kinds <= {"svg", "title", "desc", "g", "defs", "path", "use", "text", "clipPath", "rect"}
    names = {attribute for element in root.iter() for attribute in element.attrib}
    assert "style" not in names
    assert not [each for each in names if each.startswith("on")]
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    assert all(each.startswith("p-") for each in ids)


def test_a_page_of_hostile_data_is_a_page(tmp_path):
    rows = rows_of(3 * len(NASTY), users=len(NASTY))
    for k, row in enumerate(rows):
        nasty = printable(NASTY[k % len(NASTY)]) if "\ud800" in NASTY[k % len(NASTY)] else NASTY[
            k % len(NASTY)
        ]  # fmt: skip
        row["id"] = f"{k} {nasty}"
        row["user_id"] = f"user {nasty}"
        row["subset"] = f"{k % 3} {NASTY[k % 3]}"
        for name in ("question", "chosen", "rejected"):
            row[name] = f"{name} {k} {nasty}"
        row["profile"][0]["text"] = nasty + "?"
        row["rubric_aspects"] = [{"aspect": nasty + "."}]
    pairs = write_rows(tmp_path / "mine.jsonl", rows)
    for scorer in (NASTY[0], NASTY[2], NASTY[4], f"a{NASTY[1]}"):
        for context in ("none", OWN, STRANGER):
            save_run(tmp_path / "runs", pairs, scorer, context, benchmark=NASTY[1], accuracy=0.6)
    html = page_of(tmp_path / "runs", tmp_path, data=[str(tmp_path / "mine.jsonl")], texts=True,
                   figures=tmp_path / "figures")  # fmt: skip
    assert not UNSAFE.search(html)
    tags = [name for name, _ in Tags(html).seen]
    assert tags.count("script") == 2
    assert "img" not in tags
    assert not [name for _, names in Tags(html).seen for name in names if name.startswith("on")]
    for file in (tmp_path / "figures").glob("*.svg"):
        ElementTree.parse(file)
