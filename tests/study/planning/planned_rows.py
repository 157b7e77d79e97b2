"""Rows of every kind that a study is planned from, and the lines that its folder holds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from palate.benchmarks import Dataset
from palate.errors import UsageError
from palate.records import Settings
from palate.study import Study
from palate.study.planning import StudyOptions, plan_study

CONTEXTS = ("none", "profile:2", "stranger:2")


@st.composite
def row_sets(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Return couples and single rows, of users with posts and without."""
    n_posts = {user: draw(st.integers(0, 3)) for user in ("ann", "bob", "cid", "dot")}
    profiles = {
        # Ann and Bob are strangers to each other, with something to show.
        user: [{"id": f"{user}{k}", "text": f"{user} posted about {k}"} for k in range(n)]
        for user, n in (n_posts | {"ann": n_posts["ann"] + 1, "bob": n_posts["bob"] + 1}).items()
    }
    rows: list[dict[str, Any]] = []
    for k in range(draw(st.integers(2, 5))):
        users = draw(st.permutations(sorted(profiles))) if k > 1 else ["ann", "bob"][k:]
        answers = draw(st.permutations([f"{k}: black", f"{k}: green"]))
        category, couple = draw(st.sampled_from("ab")), k > 1 and draw(st.booleans())
        for j, user in enumerate(users[: 2 if couple else 1]):
            row = {
                "id": f"r{k}-{j}", "user_id": user, "question": f"Which tea in {k}?",
                "chosen": answers[j], "rejected": answers[1 - j], "profile": profiles[user],
                "category": category,
            }  # fmt: skip
            rows.append(row | ({"mirror_of": f"r{k}-{1 - j}"} if couple else {}))
    return rows


def planned(
    rows: Sequence[Mapping[str, Any]], contexts: tuple[str, ...], more: int = 0, **given: Any
) -> Study:
    """Return the study of rows with as many raters as are needed, and some more."""
    dataset, settings = Dataset.from_rows("teas", rows), Settings(seed=given.pop("seed", 0))
    with pytest.raises(UsageError, match="--raters 0: expected") as refused:
        plan_study(dataset, StudyOptions(0, contexts=contexts, **given), "x", settings=settings)
    least, most = map(int, re.findall(r"(\d+) to (\d+)", str(refused.value))[0])
    wanted = StudyOptions(min(least + more, most), contexts=contexts, **given)
    return plan_study(dataset, wanted, "study", settings=settings)


def lines(study: Study, folder: Path) -> dict[str, bytes]:
    """Return what its folder holds, by the name of the file."""
    Study(folder, study.plan, study.items, study.gold).write()
    return {path.name: path.read_bytes() for path in folder.iterdir()}
