"""Posts and rows as sources: profiles, partners, and what is refused in one line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dump_shaped import lines, refused

from palate import load_benchmark
from palate.construction.question_sources import open_source
from palate.errors import UsageError


def post(user: str, date: str, text: str, **more: Any) -> dict[str, Any]:
    return {"user_id": user, "date": date, "text": text, **more}


POSTS = [
    post("ann", "2020-03-02", "I sleep badly since May.", title="Which tea helps at night?",
         id="q1", category="tea", attribution="Ann, CC0"),
    post("ann", "2020-03-01", "My kettle is of copper.", id="p1", attribution="Ann, CC0"),
    post("ann", "2020-02-01", "An older note, mended later.", edited="2020-03-05"),
    post("ann", "2020-03-02T10:00:00Z", "On the same day."),
    post("ann", "2020-03-03", "Afterwards I slept well."),
    post("ann", "2020-01-01", "Which tea helps at night?"),
    post("ann", "2019", "I sleep badly since May."),
    post("bob", "2020-01-05", "Coffee is all I drink.", attribution="Bob, CC0"),
    post("bob", "2020-01-01", "I roast the beans.", title="How dark?"),
]  # fmt: skip


def test_posts_give_profiles_of_what_was_written_before(tmp_path: Path) -> None:
    with open_source(lines(tmp_path / "tea.jsonl", POSTS), "posts") as source:
        (question,) = source.questions()
        partner = source.partner(question, 0)
        counts = {stage.counts.stage: dict(stage.counts.dropped) for stage in source.stages}
    assert (question.id, question.user_id, question.subset) == ("1", "1", "tea")
    assert question.gold.narrative == "I sleep badly since May."
    assert question.gold.attribution == "question: Ann, CC0; posts: Ann, CC0"
    assert [(p.id, p.text, p.date) for p in question.profile] == [
        ("2", "My kettle is of copper.", "2020-03-01")
    ]
    assert counts == {
        "reading": {},
        "earlier posts": {"no earlier post": 1},
        "leaks": {"repeats the question": 1, "repeats the narrative": 1},
        "profile": {},
    }
    assert partner is not None and not partner.has_asked
    assert (partner.question.user_id, partner.question.text) == ("2", question.text)
    assert [p.text for p in partner.question.profile] == [
        "How dark?\n\nI roast the beans.", "Coffee is all I drink."
    ]  # fmt: skip
    assert partner.question.gold.attribution == "question: Ann, CC0; posts: Bob, CC0"
    assert partner.question.gold.narrative is None


def test_questions_may_be_read_again_with_the_same_counts(tmp_path: Path) -> None:
    path = lines(tmp_path / "tea.jsonl", POSTS)
    with open_source(path, "posts", keep_ids=True) as source:
        first, counts = list(source.questions()), [stage.counts for stage in source.stages]
        assert (list(source.questions()), [s.counts for s in source.stages]) == (first, counts)
    assert [(q.id, q.user_id, q.profile[0].id) for q in first] == [("q1", "ann", "p1")]


def test_of_one_users_posts_nobody_is_a_partner(tmp_path: Path) -> None:
    path = lines(tmp_path / "ann.jsonl", POSTS[:2])
    with open_source(path, "posts") as source:
        (question,) = source.questions()
        assert source.partner(question, 0) is None
    row = {"id": 1, "user_id": "ann", "question": "Which tea?", "profile": [{"text": "I nap."}]}
    with open_source(lines(tmp_path / "rows.jsonl", [row]), "rows") as source:
        assert source.partner(*source.questions(), 0) is None


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        ({"date": None}, 1, "`date`: missing; a profile holds earlier posts alone"),
        ({"date": "soon"}, 1, "`date`: 'soon' is no date"),
        ({"user_id": ""}, 1, "`user_id`"),
        ({"text": " "}, 1, "`text`"),
        ({"edited": "3/4/20"}, 1, "no date"),
        ({"id": "p1"}, 2, "`id`: 'p1' is there twice"),
    ],
)
def test_posts_that_cannot_be_read_are_refused_with_their_line(
    tmp_path: Path, change: dict[str, Any], line: int, words: str
) -> None:
    path = lines(tmp_path / "p.jsonl", [POSTS[0] | change, *POSTS[1:]])
    error = refused(path, "posts", words)
    assert (error.file, error.line) == (str(path), line)
    with open_source(path, "posts", skip_bad_rows=True) as source:
        assert source.stages[0].counts.dropped == {"cannot be read": 1}


def test_another_layout_and_posts_without_questions_are_refused(tmp_path: Path) -> None:
    path = lines(tmp_path / "p.jsonl", POSTS[1:4])
    with pytest.raises(UsageError, match="expected one of posts, rows, stackexchange"):
        open_source(path, "tweets").__enter__()
    refused(path, "posts", "no post with a title")


def test_rows_of_the_contract_keep_rubrics_and_couple_by_equal_questions(tmp_path: Path) -> None:
    pairs = load_benchmark("tasting").rows
    hidden = {"chosen", "rejected", "tie", "mirror_of", "responses"}
    rows = [{k: v for k, v in pair.to_row().items() if k not in hidden} for pair in pairs]
    path = tmp_path / "Teas_and_more_test.json"
    path.write_text(json.dumps([{**r, "subset": None} for r in rows]), encoding="utf-8")
    with open_source(path, "rows", keep_ids=True) as source:
        questions = list(source.questions())
        partners = [source.partner(question, 0) for question in questions]
        assert source.n_askers == 32
    assert [(q.id, q.user_id, q.profile, q.gold.aspects) for q in questions] == [
        (p.id, p.user_id, p.profile, p.gold.aspects) for p in pairs
    ]
    assert {q.subset for q in questions} == {"Teas_and_more"}
    mirror_of = {pair.id: pair.mirror_of for pair in load_benchmark("tasting").pairs}
    assert [p and (p.has_asked, p.question.id) for p in partners] == [
        (True, mirror_of[q.id]) for q in questions
    ]


def test_numbers_of_rows_do_not_tell_ids_and_partners_come_of_the_subset(tmp_path: Path) -> None:
    def row(name: str, user: str, subset: str, date: str, day: str) -> dict[str, Any]:
        note = {"id": "0", "text": f"A note of {user}.", "date": day}
        return {
            "id": name, "user_id": user, "subset": subset, "date": date, "profile": [note],
            "question": f"{name} of what?", "narrative": f"I, {user}, wonder.",
        }  # fmt: skip

    rows = [
        row("q1", "ann", "tea", "2020", "2019"),
        row("q2", "bob", "tea", "2022", "2021"),
        row("q3", "cy", "tea", "2020", "2018"),
        row("q4", "di", "rum", "2020", "2018"),
        row("q5", "ed", "tea", "2020", "2021"),
        {**row("q6", "ann", "tea", "2020", "2019"), "split": "adapt"},
        {**row("q7", "ann", "tea", "2020", "2019"), "turns": [{"role": "user", "content": "Hi."}]},
    ]
    with open_source(lines(tmp_path / "r.jsonl", rows), "rows") as source:
        questions = {q.id: q for q in source.questions()}
        drawn = [source.partner(questions["q1"], seed) for seed in range(20)]
        assert source.partner(questions["q4"], 0) is None
        both = [source.partner(questions["q2"], seed) for seed in range(20)]
        counts = [stage.counts for stage in source.stages]
    assert {(q.user_id, q.profile[0].id) for q in questions.values()} == {
        ("1", "1"), ("2", "2"), ("3", "3"), ("4", "4"),
    }  # fmt: skip
    # Bob's note is of 2021, after Ann's question: of the subset only Cy is left.
    assert {p and (p.question.user_id, p.question.profile[0].text) for p in drawn} == {
        ("3", "A note of cy.")
    }
    assert {p and p.question.user_id for p in both} == {"1", "3"}
    assert [dict(c.dropped) for c in counts] == [
        {"a past choice": 1, "follows earlier turns": 1},
        {"not earlier": 1},
        {"no earlier post left": 1},
    ]
