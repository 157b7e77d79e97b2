"""Reddit's dumps as posts: their own columns, who is nobody, and what is no post."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dump_shaped import lines, refused

from palate.construction.question_sources import open_source


def comment(author: str, day: int, body: str, **more: Any) -> dict[str, Any]:
    return {
        "author": author, "created_utc": 1_580_000_000 + 86_400 * day, "body": body,
        "id": f"c{day}", "edited": False, "subreddit": "tea", "score": 1, **more,
    }  # fmt: skip


def submission(author: str, day: int, title: str, selftext: str, **more: Any) -> dict[str, Any]:
    row = comment(author, day, "", title=title, selftext=selftext, **more)
    del row["body"]
    return row


DUMP = [
    comment("ann", 1, "My kettle is of copper."),
    comment("ann", 2, "I mended this later.", edited=1_590_000_000),
    comment("ann", 3, "[removed]"),
    comment("[deleted]", 3, "Somebody wrote this.", id="x1"),
    comment("ann", 4, "Nobody knows when I mended this.", edited=True),
    submission("ann", 9, "Which tea helps at night?", "I sleep badly since May."),
    submission("bob", 1, "A picture of my cup", "", name="t3_bob1"),
    submission("bob", 8, "How dark?", "[deleted]"),
    submission("bob", 9, "Which tea helps at night?", "", id="late", edited="false"),
]


def test_a_dump_of_reddit_is_read_by_its_own_columns(tmp_path: Path) -> None:
    with open_source(lines(tmp_path / "tea.jsonl", DUMP), "posts", keep_ids=True) as source:
        questions = {question.user_id: question for question in source.questions()}
        reading = source.stages[0].counts
    assert reading.n_read == len(DUMP)
    assert dict(reading.dropped) == {
        "deleted or removed": 2,
        "of nobody, as [deleted]": 1,
        "edited at an unknown time": 1,
    }
    ann, bob = questions["ann"], questions["bob"]
    assert (ann.id, ann.category) == ("t3_c9", "tea")
    assert ann.gold.narrative == "I sleep badly since May."
    assert [post.text for post in ann.profile] == ["My kettle is of copper."]
    assert (bob.id, bob.text) == ("t3_late", "Which tea helps at night?")
    assert [(post.id, post.text) for post in bob.profile] == [("t3_bob1", "A picture of my cup")]


def test_a_comment_and_a_submission_may_have_one_id(tmp_path: Path) -> None:
    rows = [comment("ann", 1, "A note.", id="k"), submission("ann", 2, "A title", "x", id="k")]
    with open_source(lines(tmp_path / "d.jsonl", rows), "posts", keep_ids=True) as source:
        (question,) = source.questions()
    assert (question.id, question.profile[0].id) == ("t3_k", "t1_k")


@pytest.mark.parametrize("user", ["[deleted]", "[Removed]", "None", "nan", "N/A", "${user}"])
def test_nobody_is_no_user_of_any_posts(tmp_path: Path, user: str) -> None:
    rows = [
        {"user_id": name, "date": f"2020-01-0{k}", "text": f"Text {k}.", "title": f"Title {k}?"}
        for k, name in enumerate(("ann", "ann", user, user), 1)
    ]
    with open_source(lines(tmp_path / "p.jsonl", rows), "posts", keep_ids=True) as source:
        assert [question.user_id for question in source.questions()] == ["ann"]
        assert source.stages[0].counts.dropped == {"of nobody, as [deleted]": 2}


@pytest.mark.parametrize(
    ("edited", "field"), [([1], "edited"), ("soon", "edited"), (False, None), ("False", None)]
)
def test_edited_is_false_or_a_time_and_its_error_names_it(
    tmp_path: Path, edited: Any, field: str | None
) -> None:
    rows = [
        {"user_id": "ann", "date": "2020-01-01", "text": "A note.", "edited": edited},
        {"user_id": "ann", "date": "2020-01-02", "text": "Why?", "title": "Which tea?"},
    ]
    path = lines(tmp_path / "p.jsonl", rows)
    if field is None:
        with open_source(path, "posts") as source:
            assert [len(question.profile) for question in source.questions()] == [1]
        return
    error = refused(path, "posts")
    assert (error.line, error.field) == (1, field)
