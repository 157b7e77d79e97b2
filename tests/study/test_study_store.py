"""The store of answers: places, what is kept of an answer, and what may not be answered."""

from __future__ import annotations

import multiprocessing
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from palate.errors import DataError, PalateError, ResourceError, RunError, UsageError
from palate.study import Study, StudyItem, read_study
from palate.study.answers import progress_of, rater_lists, read_answers
from palate.study.database import GivenAnswer, token_of
from palate.study.pages import write_links
from palate.study.store import StudyStore, close_raters, rater_named
from study.small_studies import RATINGS, asked_at, seated, small_study, state_of

FIRST = GivenAnswer(choice="first", ratings=RATINGS, seconds=2.5)
SAME = GivenAnswer(choice="same", ratings=RATINGS)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return small_study(tmp_path / "study")


@pytest.fixture
def store(study: Study) -> Iterator[StudyStore]:
    with closing(StudyStore(study)) as opened:
        yield opened


def test_an_answer_is_kept_with_all_that_its_row_says(store: StudyStore, study: Study) -> None:
    rater = seated(store, "a")
    store.set_traits(rater, {"age": "under 30"})
    store.save(rater, 0, FIRST)
    (row,) = store.answers()
    asked = asked_at(store, rater, 0)
    assert isinstance(asked.item, StudyItem)
    assert asked.given == FIRST
    assert (row.rater, row.item, row.choice, row.left) == ("r01", asked.item.id, "first", "first")
    assert row.ratings == RATINGS
    assert row.seconds == 2.5
    assert row.responses == study.responses_of[row.item]
    assert (row.gold, row.contexts, row.rows) == ("first", ("none",), (("none", "row0"),))
    assert row.traits == {"age": "under 30"}
    assert read_answers(study) == read_answers(study.folder) == [row]


def test_the_writing_connection_is_durable_and_deletes_bytes(
    store: StudyStore, study: Study
) -> None:
    db = store.database.connection
    read = {
        name: db.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("synchronous", "journal_mode", "secure_delete")
    }
    mode = stat.S_IMODE((study.folder / "answers.sqlite").stat().st_mode)
    assert read == {"synchronous": 2, "journal_mode": "wal", "secure_delete": 1}
    assert mode == 0o600


def test_a_repeated_answer_is_one_and_another_a_change(store: StudyStore) -> None:
    rater = seated(store, "a")
    for given in (FIRST, FIRST, FIRST.model_copy(update={"seconds": 9}), SAME, SAME):
        store.save(rater, 0, given)
    (row,) = store.answers()
    changes = store.database.connection.execute(
        "SELECT answer ->> 'choice', answer ->> 'seconds' FROM changes"
    ).fetchall()
    assert (row.choice, row.changed) == ("same", 1)
    assert changes == [("first", 2.5)]


def test_what_may_not_be_answered(store: StudyStore) -> None:
    state_of(store, "a")
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
    state = state_of(store, "a")
    assert (state.answered, state.total, state.next_position) == (0, 6, 0)
    assert state.traits is None
    assert store.rater(f"{store.arrive('a')}x") is None
    assert store.entry("r01", 6) is None


def test_links_are_the_same_at_any_time_and_kept_as_hashes(study: Study) -> None:
    with closing(StudyStore(study)) as store:
        links = store.issue_links()
        assert list(links) == ["r01", "r02", "r03"]
        assert store.arrive("somebody") is None
        close_raters(store.database, "r02")
        store.delete("r03")
        taken = store.arrive("somebody")
        assert taken is not None
    with closing(StudyStore(study)) as store:
        assert store.issue_links() == {"r01": links["r01"]}
        states = {rater: store.rater(token) for rater, token in links.items()}
        assert [state and state.rater for state in states.values()] == ["r01", None, None]
        assert store.rater(taken) is not None
        files = [path.read_bytes() for path in study.folder.iterdir()]
    assert not any(token.encode() in content for token in links.values() for content in files)


def test_no_arrival_id_makes_a_link(store: StudyStore) -> None:
    links = set(store.issue_links().values())
    close_raters(store.database, "r03")
    db = store.database.connection
    for name in ("r01", "link r01", "link\0r01", "\0r01", "link:r01"):
        assert token_of(db, "arrival", name) not in links
    assert store.arrive("link\0r01") not in links
    assert rater_named(db, "link\0r01") == "r04"


def test_a_closed_study_issues_no_links(store: StudyStore) -> None:
    close_raters(store.database, None)
    assert store.issue_links() == {}
    assert store.arrive("a") is None


def test_links_are_written_wherever_their_file_is_missing(study: Study) -> None:
    path = study.folder / "links.csv"
    with closing(StudyStore(study)) as store:
        store.issue_links()  # and killed before they are written
        write_links(store, path, "http://localhost")
        text = path.read_text(encoding="utf-8")
        assert [line.split(",")[0] for line in text.splitlines()] == ["rater", "r01", "r02", "r03"]
        path.unlink()
        write_links(store, path, "http://localhost")
        assert path.read_text(encoding="utf-8") == text
        write_links(store, path, "http://elsewhere")
        assert path.read_text(encoding="utf-8") == text
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


def open_at_once(folder: Path, others: Barrier) -> None:
    others.wait()
    StudyStore(read_study(folder)).close()


def test_processes_that_make_the_database_at_once_share_it(tmp_path: Path) -> None:
    forking = multiprocessing.get_context("fork")  # what is imported need not be imported again
    for k in range(6):
        study, others = small_study(tmp_path / f"study{k}"), forking.Barrier(4)
        opening = [
            forking.Process(target=open_at_once, args=(study.folder, others)) for _ in range(4)
        ]
        for process in opening:
            process.start()
        for process in opening:
            process.join()
        assert [process.exitcode for process in opening] == [0] * 4


def test_another_plan_is_refused(study: Study, tmp_path: Path) -> None:
    StudyStore(study).close()
    other = small_study(tmp_path / "other", items=5)
    (study.folder / "answers.sqlite").rename(other.folder / "answers.sqlite")
    with pytest.raises(RunError, match="answers to another plan"):
        StudyStore(other)
    with pytest.raises(RunError, match="answers to another plan"):
        read_answers(other)
    (other.folder / "answers.sqlite").write_bytes(b"no database" * 100)
    with pytest.raises(RunError, match="cannot be read"):
        StudyStore(other)


def test_a_full_disk_saves_nothing_and_the_store_goes_on(store: StudyStore) -> None:
    rater = seated(store, "a")
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


WRITES = ("INSERT", "UPDATE", "DELETE")
STEPS: dict[str, Callable[[StudyStore], object]] = {
    "arrive": lambda store: store.arrive("b"),
    "consent": lambda store: store.consent("r01"),
    "about": lambda store: store.set_traits("r01", {"age": "under 30"}),
    "practice": lambda store: store.pass_practice("r01", 1),
    "links": lambda store: store.issue_links(),
    "save": lambda store: store.save("r01", 1, FIRST),
    "close": lambda store: close_raters(store.database, "r01"),
    "forget": lambda store: store.delete("r01"),
}


@pytest.mark.parametrize("step", STEPS)
def test_of_a_step_that_the_disk_ends_nothing_is_kept(step: str, store: StudyStore) -> None:
    store.save(seated(store, "a"), 0, FIRST)
    db = store.database.connection
    before = list(db.iterdump())
    writes = [f"{what} ON main.{table}" for what in WRITES for table in ("raters", "entries")]
    for k, write in enumerate(writes):  # ends the transaction, as a full disk does
        stop = "BEGIN SELECT RAISE(ROLLBACK, 'no room'); END"
        db.execute(f"CREATE TEMP TRIGGER stop{k} AFTER {write} {stop}")
    with pytest.raises(PalateError, match=r"not saved \(no room"):
        STEPS[step](store)
    assert list(db.iterdump()) == before
    for k in range(len(writes)):
        db.execute(f"DROP TRIGGER stop{k}")
    STEPS[step](store)


def test_readers_write_nothing(study: Study) -> None:
    assert (read_answers(study), progress_of(study)) == ([], ([], []))
    assert len(list(rater_lists(study))) == 18
    assert not (study.folder / "answers.sqlite").exists()
    with closing(StudyStore(study)) as store:
        seated(store, "a")
    before = (study.folder / "answers.sqlite").read_bytes()
    read_answers(study)
    assert (study.folder / "answers.sqlite").read_bytes() == before
