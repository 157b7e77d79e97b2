"""Laws: no profile holds another user's, a later or a later edited post; kept + dropped = read."""

from __future__ import annotations

import json
import tempfile
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from dump_shaped import post as dump_post
from dump_shaped import write
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.construction.question_sources import QuestionSource, open_source

DAYS = st.integers(0, 12)
POSTS = st.lists(
    st.tuples(st.integers(0, 3), DAYS, st.none() | DAYS, st.booleans()), min_size=1, max_size=14
)


def day(k: int) -> str:
    return (date(2020, 1, 1) + timedelta(k)).isoformat()


def check(source: QuestionSource, posts: list[Any], titles: dict[str, int]) -> None:
    """Hold a source to what brute force finds among posts (user, day, day of edit, titled)."""
    shown = {}
    for question in source.questions():
        asked = posts[titles[question.text]]
        partner = source.partner(question, 0)
        before = {u for u, at, edit, _ in posts if max(at, edit or at) < asked[1]}
        assert (partner is None) == (before == {asked[0]})
        both = [question] if partner is None else [question, partner.question]
        for k, row in enumerate(both):
            start = posts[titles[row.text]][1]
            users = {posts[int(post.text.rsplit("n", 1)[1])][0] for post in row.profile}
            assert len(users) == 1 and (users == {asked[0]}) == (k == 0)
            for post in row.profile:
                _, written, edited, _ = posts[int(post.text.rsplit("n", 1)[1])]
                assert written < start and (edited is None or edited < start)
        shown[question.text] = len(question.profile)
    expected = {
        title: sum(
            user == posts[n][0] and max(written, edited or written) < posts[n][1]
            for user, written, edited, _ in posts
        )
        for title, n in titles.items()
    }
    assert shown == {title: n for title, n in expected.items() if n}
    for counts in (stage.counts for stage in source.stages):
        assert counts.n_read == counts.n_kept + sum(counts.dropped.values())


@settings(max_examples=25, deadline=None)
@given(POSTS)
def test_no_profile_holds_another_users_or_a_later_or_later_edited_post(posts: list[Any]) -> None:
    titles = {f"title{n} alone{n}": n for n, (*_, titled) in enumerate(posts) if titled}
    if not titles:
        return
    named = {n: title for title, n in titles.items()}
    rows = [
        {
            "user_id": f"u{user}", "date": day(written), "text": f"body n{n}",
            "edited": None if edited is None else day(edited), "title": named.get(n),
        }
        for n, (user, written, edited, _) in enumerate(posts)
    ]  # fmt: skip
    dump = [
        dump_post(n + 1, user + 1, day(written), f"body n{n}")
        | ({} if edited is None else {"LastEditDate": f"{day(edited)}T00:00:00.000"})
        | ({"Title": named[n]} if n in named else {"PostTypeId": "2", "ParentId": "1"})
        for n, (user, written, edited, _) in enumerate(posts)
    ]
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "posts.jsonl"
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
        with open_source(path, "posts") as source:
            check(source, posts, titles)
        with open_source(write(Path(name), dump), "stackexchange") as source:
            check(source, posts, titles)
