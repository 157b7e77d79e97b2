"""A study's pages in a real browser: by keyboard and by touch without scripts, wide and narrow."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import uvicorn
from page_studies import RIGHT, SCORES, WORDS, Served, page_study, served
from small_studies import small_item
from test_study_pages_texts import HOSTILE

from palate.records import Message, Part, Slate
from palate.study import StudyItem

axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe")
WIDTHS = (320, 390, 1440)
SCHEMES = ("light", "dark")


class Site(NamedTuple):
    pages: Served
    address: str

    def link(self, n: int) -> str:
        return self.address + self.pages.links[n]


def items() -> list[StudyItem]:
    """Return items with and without posts, a check, turns, and texts that try to break out."""
    wild = "\n\n".join(text[:2000] for text in HOSTILE if "\ud800" not in text)
    table = "|" + "column |" * 30 + "\n|" + "-|" * 30 + "\n|" + "value |" * 30
    code = (
        "```\n" + "no_space_in_this_line_of_code" * 20 + "\n```\n\n1. one\n   - two\n     > three"
    )
    question = Message(role="user", content=f"**Which** of these?\n\n{code}")
    turns = (question, Message(role="assistant", content=wild), question)
    posts = (
        Part(kind="post", text=wild, category=wild[:300]),
        Part(kind="post", text=table, rank=1),
        Part(kind="example", text=wild + code, rank=2),
    )
    return [
        small_item(1),
        StudyItem.of(Slate(question=turns, shown=posts, candidates=(wild + table, f"# A\n{code}"))),
        StudyItem.of(Slate(question=turns, candidates=(table, "w" * 5000))),
        small_item(2, kind="check", expected="first"),
    ]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    study = page_study(tmp_path_factory.mktemp("browser") / "study", items(), raters=12)
    with served(study, arrive="ID", onward="https://example.org/done") as pages:
        server = uvicorn.Server(uvicorn.Config(pages.client.app, log_level="warning"))
        with socket.create_server(("127.0.0.1", 0)) as sock:
            thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
            thread.start()
            yield Site(pages, f"http://127.0.0.1:{sock.getsockname()[1]}")
            server.should_exit = True
            thread.join()


@contextmanager
def tab(browser: Any, site: Site, width: int, refused: int = 0, **more: Any) -> Iterator[Any]:
    """Open a tab in which nothing is said on the console, and nothing asked of another host."""
    context = browser.new_context(viewport={"width": width, "height": 844}, **more)
    page, spoken = context.new_page(), []
    page.on("console", lambda message: spoken.append(message.text))
    page.on("pageerror", lambda error: spoken.append(str(error)))
    page.on(
        "request", lambda it: it.url.startswith((site.address, "data:")) or spoken.append(it.url)
    )
    yield page
    context.close()
    # A status over 400 is all that the browser itself mentions.
    spoken = [text for text in spoken if "responded with a status of 4" not in text]
    assert spoken == []


def tab_to(page: Any, selector: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate(f"document.activeElement.matches({selector!r})"):
            return
    raise AssertionError(f"no Tab leads to {selector} on {page.url}")


def test_a_whole_study_by_keyboard_without_scripts(browser, site):
    with tab(browser, site, 1440, java_script_enabled=False) as page:

        def enter(selector: str | None = None) -> None:
            if selector:
                tab_to(page, selector)
            with page.expect_navigation():
                page.keyboard.press("Enter")

        page.goto(site.link(0))
        enter("main button")
        for k in range(2):
            tab_to(page, f"[name=trait-{k}]")
            page.keyboard.press("ArrowDown")
        enter("main button")
        for _ in range(2 + len(site.pages.study.items)):
            practice = "/practice/" in page.url
            expected = RIGHT[int(page.url[-1]) - 1] if practice else "b"
            tab_to(page, "[name=choice]")
            page.keyboard.press("Space")
            if expected == "b":
                page.keyboard.press("ArrowDown")
            for name in SCORES if page.locator("[name=correctness_a]").count() else ():
                tab_to(page, f"[name={name}]")
                page.keyboard.press("Space")
                for _ in range(3):
                    page.keyboard.press("ArrowRight")
            # In a radio button Enter sends the form, as the button does.
            enter("main button" if practice else None)
            if practice:
                enter("main a.button")
        assert page.url.endswith("/end")
        enter("footer a")
        assert page.url.endswith("/stop")
        enter("main a")
        assert page.url.endswith("/end")
    rows = [row for row in site.pages.store.answers() if row.rater == "r01"]
    assert [row.choice not in (row.left, "same", "skip") for row in rows] == [True] * 4
    assert [row.ratings.get("relevance") for row in rows] == [(4, 4), None, (4, 4), (4, 4)]


def test_a_whole_study_by_touch_on_a_phone_without_scripts(browser, site):
    with tab(browser, site, 390, java_script_enabled=False, has_touch=True, is_mobile=True) as page:

        def tap(selector: str) -> None:
            place = page.locator(selector).first
            box = place.bounding_box()
            assert box and box["height"] >= 44 and box["width"] >= 44, (selector, box)
            place.tap()

        def send(selector: str = "main button") -> None:
            with page.expect_navigation():
                tap(selector)

        page.goto(site.link(1))
        send()
        for k in range(2):
            tap(f"label:has([name=trait-{k}])")
        send()
        for k in range(2 + len(site.pages.study.items)):
            practice = "/practice/" in page.url
            side = RIGHT[int(page.url[-1]) - 1] if practice else "skip" if k == 3 else "a"
            tap(f"label:has([name=choice][value={side}])")
            if k == 4:
                send()
                assert page.locator(".problems li").count() == 6
                assert page.locator("[value=a]").is_checked()
            for name in (
                SCORES if page.locator("label:has([name=correctness_a])").first.is_visible() else ()
            ):
                tap(f"label:has([name={name}][value='5'])")
            send()
            if practice:
                send("main a.button")
        assert page.url.endswith("/end")
        assert page.locator("main a.button").get_attribute("href") == "https://example.org/done"
        choices = [row.choice for row in site.pages.store.answers() if row.rater == "r02"]
        assert choices.count("skip") == 1 and len(choices) == 4
        send("footer a")
        send()
        assert page.locator("h1").inner_text() == WORDS["deleted_title"]
    assert all(row.rater != "r02" for row in site.pages.store.answers())


@pytest.fixture(scope="module")
def every_page(site) -> dict[str, Callable[[Any], None]]:
    """What leads to every kind of page."""
    pages = site.pages
    pages.post(f"{pages.links[3]}/consent")
    pages.begin(pages.links[4], practice=0)
    pages.begin(pages.links[5])
    for n in range(1, 5):
        pages.begin(pages.links[6]) if n == 1 else None
        rated = pages.ratings_on(f"{pages.links[6]}/items/{n}")
        pages.post(f"{pages.links[6]}/items/{n}", {"choice": "a", **rated})

    def opens(n: int, path: str, *clicks: str) -> Callable[[Any], None]:
        def go(page: Any) -> None:
            page.goto(f"{site.link(n)}{path}")
            for selector in clicks:
                page.locator(selector).first.click()

        return go

    def deleted(page: Any) -> None:
        free = next(k for k in range(7, 12) if pages.store.rater(pages.links[k][3:]))
        opens(free, "/stop", send)(page)

    def no_place(page: Any) -> None:
        page.goto(f"{site.address}/?ID=late")
        # The places of those who deleted are free.
        taken = [pages.store.arrive(f"early{k}") for k in range(12)]
        assert taken[-1] is None
        page.locator(send).click()
        assert page.locator("h1").inner_text() == WORDS["full_title"]

    def too_long(page: Any) -> None:
        opens(6, "/items/1")(page)
        page.locator("[name=since]").evaluate("it => it.value = 'x'.repeat(70000)")
        page.locator(send).click()
        assert page.locator("h1").inner_text() == WORDS["long_title"]

    send = "main button"
    return {
        "arrival": lambda page: page.goto(f"{site.address}/?ID=x"),
        "consent": opens(2, "/consent"),
        "questionnaire": opens(3, "/about"),
        "questionnaire, wrong": opens(3, "/about", send),
        "practice": opens(4, "/practice/1"),
        "practice again": opens(4, "/practice/1", "label:has([value=skip])", send),
        "explanation": opens(5, "/practice/1"),
        "practice with a post": opens(5, "/practice/2"),
        "item": opens(5, "/items/1"),
        "item, wrong": opens(5, "/items/1", "label:has([value=same])", send),
        "posts": opens(6, "/items/2"),
        "wild": opens(6, "/items/3"),
        "end": opens(6, "/end"),
        "stop": opens(6, "/stop"),
        "nothing there": opens(6, "/items/99"),
        "deleted": deleted,
        "no place is free": no_place,
        "too long": too_long,
    }


@pytest.mark.parametrize("scheme", SCHEMES)
def test_no_page_scrolls_sideways_speaks_or_asks_outside(browser, site, every_page, scheme):
    with tab(browser, site, 390, color_scheme=scheme) as page:
        for name, go in every_page.items():
            go(page)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 844})
                box = page.evaluate("[document.documentElement.scrollWidth,"
                                    " document.documentElement.clientWidth]")  # fmt: skip
                assert box[0] <= box[1], (name, width, box)
                assert page.evaluate("window.pwned") is None


@pytest.mark.parametrize("scheme", SCHEMES)
def test_axe_has_no_finding_on_any_page(browser, site, every_page, scheme):
    with tab(browser, site, 390, color_scheme=scheme, bypass_csp=True) as page:
        for name, go in every_page.items():
            go(page)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 844})
                found = axe.Axe().run(page).response["violations"]
                assert [(it["id"], it["nodes"][0]["html"][:300]) for it in found] == [], (
                    name,
                    width,
                )
