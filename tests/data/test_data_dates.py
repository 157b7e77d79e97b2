"""Dates of a file: read once, kept as they came, or left alone where that is asked."""

from __future__ import annotations

import datetime
import logging
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.benchmarks import Dataset, load_benchmark
from palate.contexts import build_context
from palate.data import LoadOptions, content_hash, load_rows, read_question
from palate.errors import DataError
from palate.evaluation import make_rows
from palate.session import default_session
from row_files import write

ROW: dict[str, Any] = {"id": "r", "user_id": "ann", "question": "Tea?", "chosen": "Green.",
                       "rejected": "Black."}  # fmt: skip
FORMS = (
    "2009-04-07", "Tue Apr 07 22:19:45 PDT 2009", "2012-05-04T10:00:00+09:00", "1425254400",
    1425254400123, "2017", "Sat, 30 Sep 2017 08:00:00 +0200", "2018-03-12T18:19:28.750",
)  # fmt: skip
"""Oldest first, each form once; as text they sort otherwise."""


def post(k: int, date: object) -> dict[str, Any]:
    return {"id": str(k), "text": f"post {k}", "date": date}


POSTS = [post(k, date) for k, date in enumerate(FORMS)]


def shown(row: dict[str, Any], context: str = "profile:3?order=recent") -> list[str]:
    made = Dataset.from_rows("made", [row])
    slate = make_rows(made, build_context(context, default_session()), seed=0)[0].slate
    return [part.text for part in slate.shown]


@settings(max_examples=30)
@given(st.permutations(POSTS))
def test_no_order_of_the_profile_changes_what_is_recent(posts: list[dict[str, Any]]) -> None:
    assert sorted(shown(ROW | {"profile": posts})) == ["post 5", "post 6", "post 7"]
    assert shown(ROW | {"profile": posts}) == shown(ROW | {"profile": POSTS})


@settings(max_examples=30)
@given(st.permutations(range(5)))
def test_no_order_of_the_file_changes_which_choices_are_recent(order: list[int]) -> None:
    past = [
        ROW | {"id": f"p{k}", "question": f"Q{k}?", "chosen": f"Yes {k}.",
               "rejected": f"No {k}.", "date": FORMS[k], "split": "adapt"}
        for k in order
    ]  # fmt: skip
    made = Dataset.from_rows("made", [*past, ROW | {"split": "test"}]).select()
    context = build_context("examples:2?order=recent", default_session())
    (slate,) = (row.slate for row in make_rows(made, context, seed=0))
    assert all(any(f"Q{k}?" in part.text for part in slate.shown) == (k > 2) for k in range(5))


def test_dates_stay_as_they_came() -> None:
    pair = read_question(ROW | {"profile": POSTS[::-1], "date": FORMS[1]}, subset="x")
    assert [one.date for one in pair.profile] == [str(date) for date in FORMS]
    assert pair.to_row()["date"] == FORMS[1]
    assert read_question(pair.to_row(), subset="x") == pair


def test_a_row_without_a_date_is_written_and_hashed_without_one() -> None:
    pair = read_question(ROW, subset="x")
    assert "date" not in pair.to_row() and pair.instant is None
    dated = read_question(ROW | {"date": datetime.date(2015, 11, 13)}, subset="x")
    assert dated.to_row()["date"] == "2015-11-13" and not dated.extra
    assert content_hash([dated]) != content_hash([pair])
    for nothing in (None, "", float("nan")):
        assert read_question(ROW | {"date": nothing}, subset="x") == pair


@pytest.mark.parametrize("where", ["date", "profile[0].date"])
def test_what_is_no_date_is_a_bad_row_of_a_file(tmp_path: Path, where: str) -> None:
    bad = "11 13, 2015"
    row = ROW | ({"date": bad} if where == "date" else {"profile": [post(0, bad)]})
    path = write(tmp_path / "made.jsonl", [ROW | {"id": "1"}, row])
    with pytest.raises(DataError) as caught:
        load_rows(path)
    assert str(caught.value) == (
        f"{path}:2: `{where}`: '11 13, 2015' is no date that can be read in one way only (numbers "
        "whose year does not come first); write it as 2015-11-13, with a time as "
        "2015-11-13T22:10:00Z or as seconds since 1970; or keep the order of the file with "
        "--order-as-in-file"
    )
    loaded = load_rows(path, LoadOptions(skip_bad_rows=True))
    assert (len(loaded.rows), len(loaded.bad_rows)) == (1, 1)


def test_the_order_of_the_file_can_be_kept_and_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dates = ["9/30/2017", "11 13, 2015", "2001-01-01"]
    posts = [post(k, date) for k, date in enumerate(dates)]
    path = write(tmp_path / "made.jsonl", [ROW | {"profile": posts, "date": "soon"}])
    with caplog.at_level(logging.WARNING, "palate"):
        loaded = load_benchmark(str(path), options=LoadOptions(order_as_in_file=True))
    assert caplog.messages == [
        f"{path}: dates are not read (--order-as-in-file): posts and choices stand as in the file, "
        "oldest first"
    ]
    assert [one.id for one in loaded.rows[0].profile] == list("012")
    assert [one.id for one in loaded.user_pools()["made"].users["ann"].posts] == list("012")
    assert loaded.order_as_in_file
    given = Dataset.from_rows("made", [ROW | {"profile": posts}], order_as_in_file=True)
    assert given.rows[0].profile == loaded.rows[0].profile and given.order_as_in_file
    bare = [{"id": str(k), "text": f"post {k}"} for k in range(3)]
    assert loaded.content_hash == Dataset.from_rows("made", [ROW | {"profile": bare}]).content_hash


def test_profiles_that_are_dated_in_part_keep_their_order_and_are_counted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    posts = [post(0, "2017"), post(1, None), post(2, "2015")]
    rows = (ROW | {"profile": posts}, ROW | {"id": "2", "profile": POSTS}, ROW | {"id": "3"})
    with caplog.at_level(logging.WARNING, "palate"):
        loaded = load_rows(write(tmp_path / "made.jsonl", rows))
    assert [one.id for one in loaded.rows[0].profile] == list("012")
    said = caplog.messages[0]
    assert "in 1 profiles some posts have no date: there the order of the file counts" in said
