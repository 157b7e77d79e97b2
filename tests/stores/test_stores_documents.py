"""Documents: whole after a kill and between writers, checked on reading, one line if disks fill."""

from __future__ import annotations

import errno
import os
import threading

import pytest

from palate.errors import ResourceError, UsageError
from palate.session import Session
from palate.stores import Documents, Store


def test_what_a_kill_leaves_behind_is_no_document(tmp_path):
    Documents(tmp_path).put("ab" * 32, b"reply")
    (path,) = (path for path in tmp_path.rglob("*") if path.is_file())
    path.with_name(".0123.tmp").write_bytes(path.read_bytes()[:7])
    assert Documents(tmp_path).get("ab" * 32) == b"reply"


def test_many_writers_of_one_document_leave_it_whole(tmp_path):
    documents = Documents(tmp_path)
    bodies = [bytes([n]) * 50_000 for n in range(8)]
    seen = set()

    def work(body):
        for _ in range(30):
            documents.put("ab" * 32, body)
            seen.add(documents.get("ab" * 32))

    threads = [threading.Thread(target=work, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen <= set(bodies)


@pytest.mark.parametrize("harm", [b"", b"palate-document-1 00\nwhole", b"whole"])
def test_a_damaged_document_is_not_read_and_named(tmp_path, caplog, harm):
    documents = Documents(tmp_path)
    documents.put("ab" * 32, b"whole")
    path = tmp_path / "ab" / ("ab" * 32)
    path.write_bytes(harm)
    assert documents.get("ab" * 32) is None
    assert str(path) in caplog.text


def test_json_comes_back_even_with_half_a_surrogate_pair(tmp_path):
    documents = Documents(tmp_path)
    documents.put_json("ab" * 32, {"text": "tea \ud83d", "cut_off": False})
    assert documents.get_json("ab" * 32) == {"text": "tea \ud83d", "cut_off": False}
    assert documents.get_json("cd" * 32) is None


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path, monkeypatch):
    documents = Documents(tmp_path)

    def full(*given, **named):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(ResourceError, match="No space left on device") as caught:
        documents.put("ab" * 32, b"reply")
    assert "\n" not in str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_store_that_cannot_be_written_is_read_and_refuses_in_one_line(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--cache .*: cannot write there"):
        Session(cache=tmp_path / "file")
    documents = Documents(tmp_path / "empty")
    assert documents.get("ab" * 32) is None
    assert not (tmp_path / "empty").exists(), "reading makes no folder"
    with pytest.raises(ResourceError, match="cannot be written") as caught:
        Session(store=tmp_path / "file").store.documents("samples").put("ab" * 32, b"text")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_the_store_follows_the_environment_and_opens_a_table_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "a"))
    store = Store()
    assert store.vectors("m", 4) is store.vectors("m", 4)
    assert store.vectors("m", 4).folder == tmp_path / "a" / "embeddings" / "m-4"
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "b"))
    assert store.documents("texts").folder == tmp_path / "b" / "texts"
