"""A study that shows joined contexts: every part of one person, who is named beside the row's."""

from __future__ import annotations

from pathlib import Path

from pairs import pair_of
from palate.benchmarks import Dataset
from palate.records import Post, user_key
from palate.study.planning import StudyOptions, plan_study

USERS = ("ann", "bob", "cy", "di")


def test_a_study_asks_about_joined_contexts_and_names_the_one_stranger(tmp_path: Path) -> None:
    data = Dataset("made", tuple(
        pair_of(id=f"{user}{k}", user_id=user, text=f"Which tea {k}?", chosen=f"Black {user}{k}.",
                rejected=f"Green {user}{k}.", traits={"town": f"Ghent of {user}"},
                profile=(Post(id=user, text=f"I drink tea. ({user})"),))
        for user in USERS for k in range(3)
    ))  # fmt: skip
    contexts = ("traits+profile:1", "traits+profile:1?of=stranger")
    options = StudyOptions(raters=2, per_pair=1, checks=0, contexts=contexts)
    study = plan_study(data, options, tmp_path)
    asked = [item for item in study.items.values() if item.asks == "prefers"]
    assert len(asked) == 2 * len(data.rows)
    assert all({part.kind for part in item.shown} == {"trait", "post"} for item in asked)
    for item in asked:
        own = {part.text.split()[-1].strip("()") for part in item.shown}
        assert len(own) == 1, "all parts are of one person"
    assert {len(item.users) for item in asked} == {1, 2}


def test_an_item_names_the_stranger_of_the_kind_whom_it_shows(tmp_path: Path) -> None:
    data = Dataset("made", tuple(
        pair_of(id=f"u{user}-{k}", user_id=f"u{user}", text=f"Which tea {k}?",
                chosen=f"Black {user}-{k}.", rejected=f"Green {user}-{k}.",
                traits={"side": "left" if user % 2 else "right"},
                profile=(Post(id=f"u{user}", text=f"Tea, says u{user}"),))
        for user in range(8) for k in range(3)
    ))  # fmt: skip
    contexts = ("profile:1?of=stranger&same=side",)
    options = StudyOptions(raters=2, per_pair=1, checks=0, contexts=contexts)
    names = {user_key(row.user_id): row.user_id for row in data.rows}
    items = [*plan_study(data, options, tmp_path).items.values()]
    assert len(items) == len(data.rows)
    for item in items:
        (shown,) = (part.text.split()[-1] for part in item.shown)
        users = {names[key] for key in item.users}
        assert shown in users and len(users) == 2
        assert len({int(user[1:]) % 2 for user in users}) == 1
