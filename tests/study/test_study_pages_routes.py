"""The pages of a study step by step, over HTTP without a socket."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from page_studies import (
    ABOUT,
    RIGHT,
    SCORES,
    TRAITS,
    WORDS,
    Served,
    page_study,
    problems_on,
    served,
)
from small_studies import small_item

from palate.records import Message, Part, Slate
from palate.study import StudyItem


@pytest.fixture
def pages(tmp_path: Path) -> Iterator[Served]:
    with served(page_study(tmp_path / "study")) as it:
        yield it


@pytest.fixture
def link(pages: Served) -> str:
    """The address of a rater who has come to the items."""
    pages.begin(pages.links[0])
    return pages.links[0]


def dump(pages: Served) -> str:
    return "\n".join(pages.store.database.connection.iterdump())


def where(pages: Served, link: str) -> str:
    reply = pages.client.get(link)
    assert reply.status_code == 303
    return str(reply.headers["Location"]).removeprefix(link)


def checked(html: str) -> dict[str, str]:
    return dict(re.findall(r'name="([\w-]+)" value="([^"]*)" checked', html))


def test_a_rater_goes_from_consent_to_the_end(pages):
    link = pages.links[0]
    assert where(pages, link) == "/consent"
    assert pages.post(f"{link}/consent") == f"{link}/about"
    assert pages.post(f"{link}/about", ABOUT) == f"{link}/practice/1"
    for n, side in enumerate(RIGHT, 1):
        assert pages.post(f"{link}/practice/{n}", {"choice": side, **SCORES}) == (
            f"{link}/practice/{n}"
        )
        assert WORDS[f"practice_{n}_explanation"] in pages.client.get(f"{link}/practice/{n}").text
    answer = {"choice": "a", **SCORES}
    for n in range(1, 7):
        assert where(pages, link) == f"/items/{n}"
        assert f"{n - 1} of 6 answered" in pages.client.get(f"{link}/items/{n}").text
        following = f"{link}/items/{n + 1}" if n < 6 else f"{link}/end"
        assert pages.post(f"{link}/items/{n}", answer) == following
    assert WORDS["end_title"] in pages.client.get(f"{link}/end").text
    rows = pages.store.answers()
    assert [row.choice for row in rows] == [row.left for row in rows]  # A stands left
    assert {row.choice for row in rows} == {"first", "second"}
    assert all(row.traits == {it.name: ABOUT[f"trait-{k}"] for k, it in enumerate(TRAITS)}
               for row in rows)  # fmt: skip
    assert all(row.ratings["relevance"] == (3, 3) for row in rows)


@pytest.mark.parametrize("n", [1, 2])
def test_ratings_are_of_the_answer_that_they_stand_under(pages, link, n):
    ratings = {"correctness_a": "5", "relevance_a": "4", "helpfulness_a": "3",
               "correctness_b": "1", "relevance_b": "2", "helpfulness_b": "1"}  # fmt: skip
    for k in range(1, n + 1):
        pages.post(f"{link}/items/{k}", {"choice": "b", **ratings})
    html = pages.client.get(f"{link}/items/{n}").text
    assert checked(html) == {"choice": "b", **ratings}
    row = pages.store.answers()[n - 1]
    assert row.choice == ("second" if row.left == "first" else "first")
    left = 0 if row.left == "first" else 1
    assert [row.ratings[name][left] for name in ("correctness", "relevance", "helpfulness")] == [
        5, 4, 3
    ]  # fmt: skip
    item = pages.study.items[row.item]
    a, b = re.findall(r'<section class="answer".*?</section>', html, re.DOTALL)
    assert item.answers[left] in a and item.answers[1 - left] in b


def test_practice_gives_two_tries_and_keeps_no_choice(pages):
    link = pages.links[0]
    pages.post(f"{link}/consent")
    pages.post(f"{link}/about", ABOUT)
    wrong = {"choice": "same", **SCORES}
    reply = pages.client.post(f"{link}/practice/1", data=wrong)
    assert reply.status_code == 200 and WORDS["practice_again"] in reply.text
    assert checked(reply.text)["choice"] == "same"
    assert where(pages, link) == "/practice/1"
    again = dict(re.findall(r'type="hidden" name="(again)" value="(\w+)"', reply.text))
    assert pages.post(f"{link}/practice/1", {**wrong, **again}) == f"{link}/practice/1"
    assert where(pages, link) == "/practice/2"
    assert pages.store.answers() == []


def test_steps_that_are_still_to_come_lead_back_and_later_items_are_not_there(pages):
    link = pages.links[0]
    for path in ("/about", "/practice/1", "/items/1", "/items/9", "/end"):
        assert where(pages, link + path) == link
        assert pages.post(link + path, {"choice": "a", **SCORES}) == link
    assert not pages.store.answers()
    pages.begin(link)
    assert where(pages, f"{link}/end") == link
    for path in (
        *("/items/2", "/items/0", "/items/999999", "/items/١٢", "/items/" + "9" * 5000),
        *("/items/-1", "/items/1.0", "/items", "/practice/3", "/consent/1", "/about/0x1"),
        *("/nowhere", "/stop/1", "/items/1/2"),
    ):
        for method in ("GET", "POST"):
            assert pages.client.request(method, link + path).status_code == 404, (method, path)


@pytest.mark.parametrize(
    "path", ["/", "/s", "/s/", "/s/altered", "/s/altered/items/1", "/s/%00", "/s/%ff%fe/stop",
             "/docs", "/openapi.json", "/favicon.ico", "/s/a/b/c/d"],
)  # fmt: skip
def test_a_foreign_address_is_a_page_that_says_so(pages, path):
    for method in ("GET", "POST", "PUT"):
        reply = pages.client.request(method, path)
        assert reply.status_code in (404, 405) and "<h1>" in reply.text
        assert "default-src 'none'" in reply.headers["Content-Security-Policy"]


def test_an_altered_or_closed_link_is_no_link(pages, link):
    for other in (link[:-1], link + "x", link.swapcase()):
        assert pages.client.get(other).status_code == 404
    pages.store.database.connection.execute("UPDATE raters SET closed = 1")
    for path in ("", "/items/1", "/stop", "/end"):
        assert pages.client.get(link + path).status_code == 404
    assert pages.client.post(f"{link}/items/1", data={"choice": "a", **SCORES}).status_code == 404
    assert pages.client.post(f"{link}/stop").status_code == 404


def test_an_earlier_answer_is_shown_and_a_change_of_it_is_kept(pages, link):
    for n in (1, 2, 3):
        pages.post(f"{link}/items/{n}", {"choice": "a", **SCORES})
    html = pages.client.get(f"{link}/items/2").text
    assert checked(html) == {"choice": "a", **SCORES}
    assert f'href="{link}/items/1"' in html and WORDS["to_open"] in html
    assert pages.post(f"{link}/items/2", {"choice": "b", **SCORES}) == f"{link}/items/3"
    assert pages.post(f"{link}/items/2", {"choice": "b", **SCORES}) == f"{link}/items/3"
    assert pages.post(f"{link}/items/3", {"choice": "skip"}) == f"{link}/items/4"
    rows = pages.store.answers()
    assert [row.changed for row in rows] == [0, 1, 1]
    assert rows[2].choice == "skip" and rows[2].ratings == {}


def test_no_get_changes_a_row(pages):
    for link, answers in zip(pages.links, (None, 0, 3), strict=True):
        if answers is not None:
            pages.begin(link)
        for n in range(answers or 0):
            pages.post(f"{link}/items/{n + 1}", {"choice": "a", **SCORES})
    before, total = dump(pages), pages.store.database.connection.total_changes
    waiting, visited = ["/", "/?PROLIFIC_PID=x", *pages.links], set[str]()
    for link in pages.links:
        waiting += [f"{link}/{step}" for step in ("consent", "about", "end", "stop")]
        waiting += [f"{link}/{step}/{n}" for step in ("practice", "items") for n in range(9)]
    while waiting:
        visited.add(path := waiting.pop())
        reply = pages.client.get(path)
        onward = [*re.findall(r'href="(/[^"]*)"', reply.text), reply.headers.get("Location", path)]
        waiting += [more for more in onward if more not in visited]
    assert len(visited) > 50
    assert dump(pages) == before
    assert pages.store.database.connection.total_changes == total


def test_stopping_asks_first_then_deletes_everything_and_ends_the_link(pages):
    link, other, _ = pages.links
    for each in (link, other):
        pages.begin(each)
        pages.post(f"{each}/items/1", {"choice": "a", **SCORES})
    for path in ("/consent", "/about", "/practice/1", "/items/1", "/items/2", "/stop"):
        assert f'href="{link}/stop"' in pages.client.get(link + path).text
    assert WORDS["stop_confirm"] in pages.client.get(f"{link}/stop").text
    assert len(pages.store.answers()) == 2
    reply = pages.client.post(f"{link}/stop")
    assert reply.status_code == 200 and WORDS["deleted_title"] in reply.text
    assert [row.rater for row in pages.store.answers()] == ["r02"]
    assert pages.client.post(f"{link}/stop").status_code == 404
    assert pages.client.get(link).status_code == 404


def test_who_arrives_takes_a_place_by_the_form_alone_and_comes_back_to_it(tmp_path):
    study = page_study(tmp_path / "study", raters=2)
    with served(study, links=False, arrive="PROLIFIC_PID", onward="https://example.org/done?a=1&b=2"
                ) as pages:  # fmt: skip
        before = dump(pages)
        html = pages.client.get("/?PROLIFIC_PID=x%22%3Eyz&STUDY_ID=1").text
        assert 'name="arrival" value="x&#34;&gt;yz"' in html and dump(pages) == before
        link = pages.post("/", {"arrival": 'x">yz'}).removesuffix("/about")
        assert pages.post("/", {"arrival": 'x">yz'}) == f"{link}/about"
        pages.begin(link)
        for n in range(6):
            pages.post(f"{link}/items/{n + 1}", {"choice": "a", **SCORES})
        assert pages.post("/", {"arrival": 'x">yz'}) == f"{link}/end"
        end = pages.client.get(f"{link}/end").text
        assert 'href="https://example.org/done?a=1&amp;b=2"' in end
        pages.post("/", {"arrival": "second"})
        full = pages.client.post("/", data={"arrival": "third"})
        assert full.status_code == 409 and WORDS["full_title"] in full.text
        assert 'x">yz' not in dump(pages)
        for name in ("x" * 201, "a\x1bb", "\u202e"):
            assert pages.client.get("/", params={"PROLIFIC_PID": name}).status_code == 404
            assert pages.client.post("/", data={"arrival": name}).status_code == 404
        assert pages.client.get("/?other=x").status_code == 404


def test_what_was_forgotten_is_passed_over(tmp_path):
    study = page_study(tmp_path / "study")
    with served(study) as pages:
        link = pages.links[0]
        pages.begin(link)
        pages.post(f"{link}/items/1", {"choice": "a", **SCORES})
        lost = [entry.item for entry in study.plan.lists[0]][1]
        lines = (study.folder / "items.jsonl").read_text().splitlines(keepends=True)
        (study.folder / "items.jsonl").write_text("".join(it for it in lines if lost not in it))
        gold = (study.folder / "gold.jsonl").read_text().splitlines(keepends=True)
        (study.folder / "gold.jsonl").write_text("".join(it for it in gold if lost not in it))
        assert where(pages, link) == "/items/3"
        assert pages.client.get(f"{link}/items/2").status_code == 404
        assert f'href="{link}/items/1"' in pages.client.get(f"{link}/items/3").text
        assert pages.post(f"{link}/items/1", {"choice": "b", **SCORES}) == f"{link}/items/3"


def test_with_posts_the_choice_alone_is_asked(tmp_path):
    with served(page_study(tmp_path / "study", shown=True, checks=0)) as pages:
        link = pages.links[0]
        pages.begin(link)
        html = pages.client.get(f"{link}/items/1").text
        assert WORDS["prefers_title"] in html and "A post about 0." in html
        assert "correctness" not in html
        assert WORDS["practice_1_post"] in pages.client.get(f"{link}/practice/1").text
        rated = pages.client.post(f"{link}/items/1", data={"choice": "a", **SCORES})
        assert rated.status_code == 422
        assert problems_on(rated.text) == [WORDS["field_unknown"]]
        assert pages.post(f"{link}/items/1", {"choice": "same"}) == f"{link}/items/2"


def test_what_a_model_is_told_of_a_post_stands_on_the_page(tmp_path):
    shown = (
        Part(kind="post", text="I like tea.", category="drinks & <b>"),
        Part(kind="example", text="Chosen:\n  - tea\nNot chosen:\n  <b>"),
    )
    question = (Message(role="user", content="What?"),)
    item = StudyItem.of(Slate(question=question, shown=shown, candidates=("Tea.", "Coffee.")))
    with served(page_study(tmp_path / "study", [item])) as pages:
        pages.begin(pages.links[0])
        html = pages.client.get(f"{pages.links[0]}/items/1").text
        assert '<p class="role" dir="auto">drinks &amp; &lt;b&gt;</p>' in html
        # In Markdown `Not chosen` would be a line of the list above it.
        assert ">Chosen:\n  - tea\nNot chosen:\n  &lt;b&gt;</div>" in html


def test_a_collection_asks_for_the_own_preference_without_practice(tmp_path):
    items = [small_item(n, asks="prefers") for n in range(3)]
    study = page_study(tmp_path / "study", items, mode="collect", per_rater=3)
    with served(study, choose=lambda _, asked: (
        study.plan.lists[0][len(asked)] if len(asked) < 3 else None
    )) as pages:  # fmt: skip
        link = pages.links[0]
        pages.post(f"{link}/consent")
        assert pages.post(f"{link}/about", ABOUT) == f"{link}/items/1"
        html = pages.client.get(f"{link}/items/1").text
        assert WORDS["own_title"] in html and "correctness" not in html
        for n in (1, 2, 3):
            pages.post(f"{link}/items/{n}", {"choice": "b"})
        assert where(pages, link) == "/end"
        assert pages.client.get(f"{link}/practice/1").status_code == 404


@pytest.mark.parametrize(
    ("since", "low", "high"),
    [("", None, None), ("nan", None, None), ("inf", None, None), ("-inf", None, None),
     ("soon", None, None), ("9" * 400, None, None), ("0", 1000, 1e6)],
)  # fmt: skip
def test_the_time_of_an_item_is_taken_with_care(pages, link, since, low, high):
    html = pages.client.get(f"{link}/items/1").text
    given = re.search(r'name="since" value="([\d.]+)"', html)
    assert given is not None
    pages.post(f"{link}/items/1", {"choice": "skip", "since": given[1]})
    pages.post(f"{link}/items/2", {"choice": "skip", "since": since})
    first, second = pages.store.answers()
    assert first.seconds is not None and 0 <= first.seconds < 60
    if low is None:
        assert second.seconds is None
    else:
        assert second.seconds is not None and low <= second.seconds <= high
