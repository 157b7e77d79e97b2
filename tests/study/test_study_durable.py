"""Nothing that was acknowledged is lost, and nothing that was deleted stays."""

from __future__ import annotations

import csv
import json
import multiprocessing
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing, contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

import palate.study.database as databases
from palate.errors import ResourceError, UsageError
from palate.files import ENDING
from palate.records import user_key
from palate.seeding import canonical_json
from palate.study import Study, read_study
from palate.study.answers import rater_lists, read_answers
from palate.study.database import GivenAnswer
from palate.study.store import StudyStore, forget_rater, forget_user
from study.planted_answers import written
from study.small_studies import RATINGS, seated, small_study, state_of

CHOICES = ("first", "second", "same")


def write(folder: Path, acknowledged: Connection) -> None:
    """Answer all that is open, one answer after the other, and tell of each that is saved."""
    store = StudyStore(read_study(folder))
    rater, state = seated(store, "a"), state_of(store, "a")
    for position in range(state.next_position, state.total):
        store.save(rater, position, GivenAnswer(choice="same"))
        acknowledged.send(position)


def given(k: int) -> GivenAnswer:
    return GivenAnswer(choice=CHOICES[k % 3], ratings=RATINGS, seconds=k)


def test_threads_lose_no_answer(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", raters=8, items=20)
    with closing(StudyStore(study)) as store:
        names = list(store.issue_links())
        for name in names:
            store.consent(name)
        done = threading.Event()

        def answer(rater: str) -> None:
            for k in range(22 * 3):  # each answer, and two changes of it
                store.save(rater, k // 3, given(k))

        def read() -> int:
            n = 0
            while not done.wait(0.02):  # a slow disk makes this long: no reason to spin
                rows = len(read_answers(study))
                assert rows >= n
                n = rows
            return n

        with ThreadPoolExecutor(9) as pool:
            reader = pool.submit(read)
            writers = [pool.submit(answer, name) for name in names]
            wait(writers)
            done.set()
            for ended in (*writers, reader):
                ended.result()
        rows = store.answers()
        (changes,) = store.database.connection.execute("SELECT count(*) FROM changes").fetchone()
    assert [row.rater for row in rows] == [name for name in names for _ in range(22)]
    assert len({(row.rater, row.item) for row in rows}) == 8 * 22
    assert {(row.choice, row.changed) for row in rows} == {("same", 2)}
    assert changes == 2 * 8 * 22


def test_who_forgets_has_a_turn_while_another_saves_without_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "BUSY", 1.0)
    study, done = small_study(tmp_path / "study"), threading.Event()

    def save() -> None:
        path = study.folder / "answers.sqlite"
        with closing(sqlite3.connect(path, 10, isolation_level=None)) as db:
            while not done.is_set():
                db.execute("BEGIN IMMEDIATE")
                done.wait(0.3)
                db.execute("COMMIT")
                time.sleep(0.005)

    with closing(StudyStore(study)) as store, ThreadPoolExecutor(1) as pool:
        store.issue_links()
        saving = pool.submit(save)
        try:
            for _ in range(3):
                store.delete("r02")
        finally:
            done.set()
        saving.result()


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", raters=1, items=120, checks=0, shown=True)
    acknowledged: list[int] = []
    forking = multiprocessing.get_context("fork")  # what is imported need not be imported again
    for stop in (20, 45):
        told, tells = forking.Pipe(duplex=False)
        writer = forking.Process(target=write, args=(study.folder, tells))
        writer.start()
        tells.close()
        while len(acknowledged) < stop:
            acknowledged.append(told.recv())
        writer.kill()
        writer.join()
        with suppress(EOFError):
            while True:
                acknowledged.append(told.recv())
    rows = read_answers(study)
    items = [entry.item for entry in study.plan.lists[0]]
    assert [row.item for row in rows] == items[: len(rows)]  # each once, in order
    assert set(acknowledged) <= set(range(len(rows)))
    assert 0 <= len(rows) - len(acknowledged) <= 2  # saved, and killed before it could tell


@contextmanager
def watched(folder: Path, *users: str) -> Iterator[tuple[StudyStore, Study]]:
    """Give the store of three raters who answered all, with links and exports."""
    study = small_study(folder / "study", users=tuple(map(user_key, users)))
    with closing(StudyStore(study)) as store:
        with (study.folder / "links.csv").open("w", encoding="utf-8") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(("rater", "link"))
            for rater, token in store.issue_links().items():
                lines.writerow((rater, f"http://localhost/{token}"))
                store.consent(rater)
                store.set_traits(rater, {"age": "30 or older"})
                for k in range(6):
                    store.save(rater, k, given(k))
                    store.save(rater, k, given(k + 1))
        (study.folder / "exports").mkdir()
        exports = {"answers": (row.model_dump(mode="json") for row in store.answers())}
        for name, rows in {**exports, "items": rater_lists(study)}.items():
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (study.folder / "exports" / f"{name}.jsonl").write_text(text, encoding="utf-8")
        yield store, study


def files_with(study: Study, canary: str) -> list[str]:
    # Of another process: closing a database's file here would end the locks of this process on it.
    words = ["grep", "-rlaF", canary, str(study.folder)]
    return subprocess.run(words, text=True, capture_output=True, check=False).stdout.split()


def test_of_a_forgotten_rater_no_byte_stays(tmp_path: Path) -> None:
    with watched(tmp_path) as (store, study):
        # As what a rater gave is of fixed options, a time stands for what is theirs alone.
        canary = "3141.59265"
        store.save("r02", 2, GivenAnswer(choice="second", ratings=RATINGS, seconds=3141.59265))
        store.save("r02", 2, GivenAnswer(choice="same", ratings=RATINGS, seconds=27182.8182))
        export = written(study.folder / "exports" / "answers.jsonl", store.answers())
        before = [row for row in store.answers() if row.rater != "r02"]
        assert [Path(name).name for name in files_with(study, canary)] == ["answers.sqlite-wal"]
        assert len(files_with(study, "27182.8182")) == 2
        store.delete("r02")
        for trace in (canary, "27182.8182", '"r02"', "r02,"):
            assert files_with(study, trace) == []
        assert store.answers() == before
        left = export.read_text(encoding="utf-8")
        assert left == "".join(f"{row.model_dump_json()}\n" for row in before)
        links = (study.folder / "links.csv").read_text(encoding="utf-8").splitlines()
        assert [line.split(",")[0] for line in links] == ["rater", "r01", "r03"]
        tokens = store.database.connection.execute("SELECT token FROM raters ORDER BY rater")
        assert [token is None for (token,) in tokens] == [False, True, False]
        with pytest.raises(UsageError, match="r02: takes no answers"):
            store.save("r02", 0, given(0))
        with pytest.raises(UsageError, match="r09: the study has no such rater"):
            store.delete("r09")


def test_forgetting_says_where_a_reader_keeps_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "BUSY", 0.2)
    with watched(tmp_path) as (store, study):
        with closing(sqlite3.connect(study.folder / "answers.sqlite")) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT * FROM entries").fetchone()
            with pytest.raises(ResourceError, match="another program reads it"):
                store.delete("r02")
            assert files_with(study, '"r02"') != []
        assert forget_rater(store.database, study.folder, "r02") == "r02"
        assert files_with(study, '"r02"') == []


def test_of_a_forgotten_user_no_word_stays(tmp_path: Path) -> None:
    with watched(tmp_path, "ana", "ben") as (store, study):
        before = store.answers()
        words, others = "Question 0?", "Question 1?"
        assert len(files_with(study, words)) == 2  # items and the exported lists
        assert forget_user(store.database, study.folder, "ana") == 2
        assert files_with(study, words) == []
        assert files_with(study, user_key("ana")) == []
        assert len(files_with(study, others)) == 2
        assert [(row.rater, row.item, row.choice) for row in store.answers()] == [
            (row.rater, row.item, row.choice) for row in before
        ]
        exported = (study.folder / "exports" / "answers.jsonl").read_text(encoding="utf-8")
        assert len(exported.splitlines()) == 18
    assert len(read_study(study.folder).items) == len(study.items) - 1


def test_an_export_that_was_killed_leaves_nothing_of_the_forgotten(tmp_path: Path) -> None:
    with watched(tmp_path) as (store, study):
        left = study.folder / "exports" / f".rows.jsonl.0123456789abcdef{ENDING}"
        left.write_text('{"rater": "r02", "it was killed here')
        store.delete("r02")
        assert not left.exists()


def test_files_of_others_that_are_forgotten_over_keep_their_other_lines(tmp_path: Path) -> None:
    with watched(tmp_path) as (store, study):
        text = '\ufeffrater;link\r\n"r01";a\r\n"r02";b\r\n"r020";c\r\nr03;d'
        (study.folder / "links.csv").write_bytes(text.encode())
        other = study.folder / "exports" / "notes.jsonl"
        other.write_bytes(b'no JSON\n["r02"]\n\n{"user_id": "0a-r02"}\n{"user_id": "r03"}\n\xff')
        store.delete("r02")
        left = text.replace('"r02";b\r\n', "")
        assert (study.folder / "links.csv").read_bytes() == left.encode()
        assert other.read_bytes() == b'no JSON\n["r02"]\n\n{"user_id": "r03"}\n\xff'


def test_exported_answers_lose_the_rows_of_a_forgotten_user(tmp_path: Path) -> None:
    with watched(tmp_path, "ana") as (store, study):
        path = study.folder / "exports" / "answers.jsonl"
        path.write_text(exported(store))
        assert len(files_with(study, '"row0"')) == 2  # gold, and the exported answers
        forget_user(store.database, study.folder, "ana")
        assert files_with(study, '"row0"') == []
        assert path.read_text() == exported(store)
        assert len(path.read_text().splitlines()) == 18


def test_who_was_forgotten_before_the_store_opened_is_not_there(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", users=(user_key("ana"),))
    with closing(StudyStore(study)) as other:
        forget_user(other.database, study.folder, "ana")
    with closing(StudyStore(study)) as store:  # of what was read before
        assert len(store.study.items) == len(study.items) - 1


@pytest.mark.parametrize("stop", range(4))
def test_a_user_is_forgotten_by_a_second_try_wherever_the_first_was_killed(
    tmp_path: Path, stop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(tmp_path, "ana") as (store, study):
        path, replace = study.folder / "exports" / "answers.jsonl", Path.replace
        path.write_text(exported(store))
        left = iter(range(stop))

        def killed(self: Path, target: Path) -> Path:
            if next(left, None) is None:
                raise KeyboardInterrupt
            return replace(self, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", killed)
            with pytest.raises(KeyboardInterrupt):
                forget_user(store.database, study.folder, "ana")
        path.write_text(exported(store))  # exported in between
        assert forget_user(store.database, study.folder, "ana") > 0
        for trace in ("Question 0?", user_key("ana"), '"row0"'):
            assert files_with(study, trace) == []
        assert path.read_text() == exported(store)


def exported(store: StudyStore) -> str:
    with closing(StudyStore(read_study(store.planned.folder))) as fresh:
        rows = [row.model_dump(mode="json") for row in fresh.answers()]
    return "".join(f"{canonical_json(row)}\n" for row in rows)
