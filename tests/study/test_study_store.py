"""The store of answers: places, what is kept of an answer, and what may not be answered."""

from __future__ import annotations

import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from palate.errors import DataError, ResourceError, RunError, UsageError
from palate.study import Study, StudyItem
from palate.study.store import GivenAnswer, StudyStore, read_answers
from study.small_studies import RATINGS, small_study

FIRST = GivenAnswer(choice="first", ratings=RATINGS, seconds=2.5)
SAME = GivenAnswer(choice="same", ratings=RATINGS)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return small_study(tmp_path / "study")


def at_work(store: StudyStore, arrival: str) -> str:
    token = store.arrive(arrival)
    assert token is not None
    state = store.rater(token)
    assert state is not None
    store.consent(state.rater)
    return state.rater


def test_an_answer_is_kept_with_all_that_its_row_says(study: Study) -> None:
    with closing(StudyStore.open(study)) as store:
        rater = at_work(store, "a")
        store.set_traits(rater, {"age": "under 30"})
        store.save(rater, 0, FIRST)
        (row,) = store.answers()
        asked = store.entry(rater, 0)
    assert asked is not None
    assert isinstance(asked.item, StudyItem)
    assert asked.given == FIRST
    assert (row.rater, row.item, row.choice, row.left) == ("r01", asked.item.id, "first", "first")
    assert row.ratings == RATINGS
    assert row.seconds == 2.5
    assert row.responses == study.responses_of[row.item]
    assert (row.gold, row.contexts, row.rows) == ("first", ("none",), (("none", "row0"),))
    assert row.traits == {"age": "under 30"}
    assert read_answers(study) == read_answers(study.folder) == [row]


def test_the_writing_connection_is_durable_and_deletes_bytes(study: Study) -> None:
    with closing(StudyStore.open(study)) as store:
        db = store.database.connection
        read = {
            name: db.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("synchronous", "journal_mode", "secure_delete")
        }
        mode = stat.S_IMODE((study.folder / "answers.sqlite").stat().st_mode)
    assert read == {"synchronous": 2, "journal_mode": "wal", "secure_delete": 1}
    assert mode == 0o600


def test_a_repeated_answer_is_one_and_another_a_change(study: Study) -> None:
    with closing(StudyStore.open(study)) as store:
        rater = at_work(store, "a")
        for given in (FIRST, FIRST, FIRST.model_copy(update={"seconds": 9}), SAME, SAME):
            store.save(rater, 0, given)
        (row,) = store.answers()
        changes = store.database.connection.execute(
            "SELECT answer ->> 'choice', answer ->> 'seconds' FROM changes"
        ).fetchall()
    assert (row.choice, row.changed) == ("same", 1)
    assert changes == [("first", 2.5)]


def test_what_may_not_be_answered(study: Study) -> None:
    with closing(StudyStore.open(study)) as store:
        token = store.arrive("a")
        with pytest.raises(UsageError, match="r01: has not consented"):
            store.save("r01", 0, FIRST)
        store.consent("r01")
        for position in (1, 6, -1):
            with pytest.raises(UsageError, match="is not to be answered"):
                store.save("r01", position, FIRST)
        with pytest.raises(UsageError, match="r09: takes no answers"):
            store.save("r09", 0, FIRST)
        with pytest.raises(DataError, match="ratings"):
            store.save("r01", 0, GivenAnswer(choice="first"))
        with pytest.raises(DataError, match="age = '12': expected under 30 or 30 or older"):
            store.set_traits("r01", {"age": "12"})
        assert token is not None
        state = store.rater(token)
        assert state is not None
        assert (state.answered, state.total, state.next_position) == (0, 6, 0)
        assert state.traits is None
        assert store.rater(token + "x") is None
        assert store.entry("r01", 6) is None


def test_two_arrivals_get_two_places_and_one_comes_back(study: Study) -> None:
    with closing(StudyStore.open(study)) as store:
        tokens = [store.arrive(name) for name in ("a", "b", "a", "c", "d")]
    assert tokens[0] == tokens[2]
    assert len(set(tokens[:4])) == 3
    assert tokens[4] is None


def test_links_are_issued_once_and_tokens_kept_as_hashes(study: Study) -> None:
    with closing(StudyStore.open(study)) as store:
        links = store.issue_links()
        assert list(links) == ["r01", "r02", "r03"]
        assert store.issue_links() == {}
        arrival = store.arrive("somebody")
        assert arrival is None
        for rater, token in links.items():
            state = store.rater(token)
            assert state is not None
            assert state.rater == rater
        files = [path.read_bytes() for path in study.folder.iterdir()]
    assert not any(token.encode() in content for token in links.values() for content in files)


def test_another_plan_is_refused(study: Study, tmp_path: Path) -> None:
    StudyStore.open(study).close()
    other = small_study(tmp_path / "other", items=5)
    (study.folder / "answers.sqlite").rename(other.folder / "answers.sqlite")
    with pytest.raises(RunError, match="answers to another plan"):
        StudyStore.open(other)
    with pytest.raises(RunError, match="answers to another plan"):
        read_answers(other)
    (other.folder / "answers.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(RunError, match="cannot be read"):
        StudyStore.open(other)


def test_a_full_disk_saves_nothing_and_the_store_goes_on(study: Study) -> None:
    with closing(StudyStore.open(study)) as store:
        rater = at_work(store, "a")
        db = store.database.connection
        pages = db.execute("PRAGMA page_count").fetchone()[0]
        db.execute(f"PRAGMA max_page_count = {pages}")
        flips = 0
        with pytest.raises(ResourceError, match=r"not saved \(database or disk is full"):
            for flips in range(2000):  # each is a change, which is kept
                store.save(rater, 0, (FIRST, SAME)[flips % 2])
        (row,) = store.answers()
        assert row.changed == flips - 1
        assert row.choice == ("first", "same")[(flips - 1) % 2]
        db.execute("PRAGMA max_page_count = 100000")
        store.save(rater, 0, (FIRST, SAME)[flips % 2])
        assert store.answers()[0].changed == flips


def test_readers_write_nothing(study: Study) -> None:
    with closing(StudyStore.open(study)) as store:
        at_work(store, "a")
    read_answers(study)
    with sqlite3.connect(study.folder / "answers.sqlite") as db:
        assert db.execute("SELECT count(*) FROM raters").fetchone() == (1,)
