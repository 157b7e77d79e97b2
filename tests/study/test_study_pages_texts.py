"""What stands on a study's pages: hostile texts as text, no secret, nothing that acts."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_studies import ABOUT, RIGHT, SCORES, Served, page_study, served
from small_studies import small_item

from palate.html import UNSAFE
from palate.records import Message, Part, Slate
from palate.study import GoldRow, Study, StudyItem
from palate.study.page_rendering import rendered

TAGS = {
    *("p", "em", "strong", "s", "code", "pre", "ul", "ol", "li", "blockquote", "hr", "br"),
    *("table", "thead", "tbody", "tr", "th", "td"),
}
HOSTILE = (
    "</section></main><script>window.pwned=1</script><img src=x onerror=pwned()>",
    "[click](javascript:alert(1)) ![x](https://evil.example/x.png) <https://evil.example>",
    "[ref]: https://evil.example\n[ref]",
    "\u202eevil\u2066 &#8238;entity&#x202e; \x1b[31m \x00 &#0; \ud800",
    "# Title\n## <h1>Two</h1>\n\nSetext\n===\n\n###### Six",
    "|a||\n|:-:|-:|\n|<b>x</b>|2|\n",
    "```<script>\n</pre><script>x</script>\n```\n\n    indented <b>",
    "<style>*{display:none}</style><form action=https://evil.example><input name=choice value=a>",
    "w" * 100_000,
    "> " * 500 + "deep",
    "- " * 500 + "deep",
    "*" * 3000 + "[" * 3000 + "`" * 3000,
)


class Elements(HTMLParser):
    """The elements and attributes of a text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[tuple[str, str | None]] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes |= set(attrs)


def check_harmless(html: str) -> None:
    elements = Elements(html)
    assert set(elements.tags) <= TAGS, set(elements.tags) - TAGS
    assert {name for name, _ in elements.attributes} <= {"class", "start", "tabindex", "value"}
    assert not UNSAFE.search(html)
    assert not re.search(r"</\w+[^\w>]", html)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_text_is_text(text):
    check_harmless(rendered(text))


MARKS = st.text(st.sampled_from("<>&;#[]()!`*_|-:=~\\\n\t /\"'aA1\u202e\x1b") | st.characters())


@given(MARKS | st.lists(st.sampled_from([*HOSTILE[:8], "\n", "> ", "- "])).map("".join))
def test_no_text_makes_an_element_that_acts(text):
    check_harmless(rendered(text))


def test_what_people_write_keeps_its_form():
    html = rendered("two\nlines\n\n* a\n* b\n\n**bold** `code`\n\n|a|b|\n|-|-|\n|1|2|\n\n~~no~~")
    for part in ("two<br>\nlines" if "<br>" in html else "two<br />\nlines", "<li>a</li>",
                 "<strong>bold</strong>", "<th>a</th>", "<td>2</td>", "<s>no</s>"):  # fmt: skip
        assert part in html


class Words(HTMLParser):
    """What a reader of a page sees, less white space and marks of ASCII."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text = ""
        self.feed(html)

    def handle_data(self, data: str) -> None:
        self.text += "".join(c for c in data if c.isalnum() or not (c.isascii() or c.isspace()))


DROPPED = {
    "cell": "|a|b|\n|-|-|\n|1|2|LOST|",
    "mark in a cell": "a|b\n-|-\n1|2|\u2705",
    "code in a cell": "|a|b|\n|-|-|\n|`x||LOST`|2|",
    "cell in a quote": "> |a|b|\n> |-|-|\n> |1|2|LOST",
    "cell in a list": "- |a|b|\n  |-|-|\n  |1|2|LOST|",
    "list": "".join("  " * k + f"- level{k}\n" for k in range(15)),
    "quotes": "> " * 25 + "LOST",
    "lists and quotes": "".join("> - " * k + f"a{k}\n\n" for k in range(1, 14)),
    "very deep": "> " * 500 + "LOST",
    "very deep list": "".join("  " * k + f"- level{k}\n" for k in range(300)),
    "language": "```python LOST\nx = 1\n```",
    "language with tildes": "~~~ LOST\nx\n~~~",
}


@pytest.mark.parametrize("name", DROPPED)
def test_nothing_that_a_model_is_shown_vanishes_from_a_page(name: str) -> None:
    # P4: Markdown drops cells beyond the header's, and what is nested deep.
    html = rendered(DROPPED[name])
    assert Words(html).text == Words(DROPPED[name].replace("> ", "")).text
    check_harmless(html)


@given(
    st.text(st.sampled_from("|-`> \n*\t1.#)~abxyz\u00e9")),
    st.sampled_from(["", "|a|b|\n|-|-|\n|", "- ", "> "]),
)
def test_letters_of_any_text_are_on_the_page(text: str, before: str) -> None:
    letters = [c for c in Words(rendered(before + text)).text if c.isalpha()]
    assert letters == [c for c in before + text if c.isalpha()]


def test_marks_of_ascii_in_cells_stay_and_tables_stay_tables() -> None:
    assert "?" in rendered("|a|b|\n|-|-|\n|1|2|?|")
    for text in ("|a|b|\n|-|-|\n|1|2||", "|a|b|\n|-|-|\n|x \\| y|2|", "> |a|b|\n> |-|-|\n> |1|"):
        assert "<td>" in rendered(text), text


def test_lists_bear_their_own_numbers() -> None:
    # A countdown is no list from 3 to 5.
    html = rendered("3. c\n2. b\n   1. x\n   7. y\n1. a\n2. z")
    assert re.findall(r'<li value="(\d+)"', html) == ["3", "2", "1", "7", "1", "2"]


GOLD = GoldRow(item="0" * 16, context="profile:5?goldcontext=1", row="goldrowid", chosen="first",
               user="goldkeyofuser")  # fmt: skip


def planted_study(folder: Path) -> Study:
    items = []
    for n, hostile in enumerate(HOSTILE[:-2]):
        text = hostile.replace("\ud800", "")
        question = (Message(role="user", content=f"{text} {n}?"),)
        turns = (*question, Message(role="assistant", content=text), *question)
        post = Part(kind="post", text=text, category="told to models too")
        slate = Slate(question=turns if n % 2 else question, shown=(post,) if n % 3 else (),
                      candidates=(f"{text} one", f"{text} two"))  # fmt: skip
        items.append(StudyItem.of(slate, category="goldcategory", users=("goldkeyofuser",)))
    items.append(small_item(77, kind="check", expected="first", users=("goldkeyofuser",)))
    study = page_study(folder, items)
    return study


@pytest.fixture(scope="module")
def replies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, list]]:
    """Every page of a study, with what is wrong and right."""
    with served(planted_study(tmp_path_factory.mktemp("texts") / "study")) as pages:
        link, every = pages.links[0], []

        def ask(path: str, form: dict[str, str] | None = None, method: str = "POST") -> None:
            every.append(pages.client.request(method, path, data=form or {}))
            every.append(pages.client.get(path))

        ask("/nowhere", method="GET")
        for path, form in (("consent", {}), ("about", ABOUT)):
            ask(f"{link}/{path}", {"x": "y"})
            ask(f"{link}/{path}", form)
        for n, side in enumerate(RIGHT, 1):
            ask(f"{link}/practice/{n}", {})
            ask(
                f"{link}/practice/{n}",
                {"choice": "same", **pages.ratings_on(f"{link}/practice/{n}")},
            )
            ask(
                f"{link}/practice/{n}", {"choice": side, **pages.ratings_on(f"{link}/practice/{n}")}
            )
        for n in range(1, len(pages.study.items) + 1):
            ask(f"{link}/items/{n}", {"choice": "zzz"})
            rated = pages.ratings_on(f"{link}/items/{n}")
            ask(f"{link}/items/{n}", {"choice": "a", **rated})
        ask(f"{link}/end", method="GET")
        ask(f"{link}/stop", {"x": "y"})
        ask(f"{link}/stop")
        yield pages, every


def test_every_kind_of_page_was_met(replies):
    assert {reply.status_code for reply in replies[1]} == {200, 303, 404, 422}
    assert sum("answer-a" in reply.text for reply in replies[1]) > 20


def test_every_page_stands_under_a_policy_without_scripts_and_sets_no_cookie(replies):
    for reply in replies[1]:
        headers = {name.lower(): value for name, value in reply.headers.items()}
        assert not headers.keys() & {"set-cookie", "server", "etag", "x-powered-by"}
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        if reply.status_code == 303:
            assert headers["location"].startswith("/s/")
            continue
        policy = headers["content-security-policy"]
        assert re.fullmatch(
            "default-src 'none'; style-src 'sha256-[\\w+/=]+'; img-src data:; form-action 'self'; "
            "base-uri 'none'; frame-ancestors 'none'", policy
        )  # fmt: skip
        elements = Elements(reply.text)
        assert not set(elements.tags) & {"script", "img", "iframe", "object", "embed", "base"}
        names = {name for name, _ in elements.attributes}
        assert "style" not in names and not any(name.startswith("on") for name in names)
        loaded = {value for name, value in elements.attributes if name in ("src", "href")}
        assert all((value or "").startswith(("/s/", "#", "data:,")) for value in loaded), loaded
        assert elements.tags.count("h1") == 1
        assert not UNSAFE.search(reply.text)


def test_no_page_or_header_holds_a_secret(replies):
    pages, every = replies
    study = pages.study
    secrets = {"goldcategory", "goldkeyofuser", "profile:5", "check", "expected", study.plan.hash}
    secrets |= {*study.items, *(item.pair for item in study.items.values()), "r01"}
    secrets |= {name for both in study.responses_of.values() for name in both}
    for reply in every:
        # The style sheet has a word or two of its own.
        text = re.sub(r"<style>.*?</style>", "", reply.text, flags=re.DOTALL)
        text = f"{text}\n{reply.headers}".replace(" checked>", ">")
        assert not [secret for secret in secrets if secret in text]


def test_an_item_and_a_check_differ_by_their_texts_alone(tmp_path):
    items = [small_item(1), small_item(2, kind="check", expected="second")]
    with served(page_study(tmp_path / "study", items)) as pages:
        pages.begin(link := pages.links[0])
        first = pages.client.get(f"{link}/items/1").text
        pages.post(f"{link}/items/1", {"choice": "a", **SCORES})
        second = pages.client.get(f"{link}/items/2").text

    def bare(html: str) -> str:
        html = re.sub(r'name="since" value="[\d.]+"|<a href="[^"]*items/1">Back</a>\n', "", html)
        html = re.sub(r"(Answer|Question|Brief) \d( is long)?", r"T", html)
        return re.sub(r'value="\d"( aria-labelledby="progress")|\d of 2 answered', "", html)

    assert bare(first) == bare(second)
