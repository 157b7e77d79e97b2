"""What users chose: rows that palate learns from, on disk before they are acknowledged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from unicodedata import normalize

import pytest
from serving import Coded, Served, coded

import palate
from palate.errors import DataError, UsageError
from palate.records import normal_form
from palate.serve.app import ServeSettings
from palate.serve.feedback import FeedbackFile
from palate.study import CollectOptions, plan_collection

CHOICE = {"user": "ann", "question": "Tea?", "responses": ["Yes.", "No – never."], "chosen": 1}


def lines(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def served(tmp_path):
    settings = ServeSettings(feedback=FeedbackFile(tmp_path / "feedback.jsonl"))
    with Served(coded(Coded()), settings) as server:
        yield server


def test_a_choice_is_a_row_that_adapt_reads(served, tmp_path):
    status, reply = served.post("/feedback", CHOICE)
    assert status == 201
    served.post("/feedback", {**CHOICE, "chosen": 0, "question": "Coffee?"})
    path = tmp_path / "feedback.jsonl"
    first, second = lines(path)
    assert first == {
        "id": reply["id"], "user_id": "ann", "question": "Tea?", "chosen": "No – never.",
        "rejected": "Yes.", "split": "adapt", "date": reply["date"],
    }  # fmt: skip
    assert reply["date"].endswith("+00:00")
    assert (second["chosen"], second["rejected"]) == ("Yes.", "No – never.")
    loaded = palate.load_benchmark(str(path), split="adapt")
    assert [(pair.user_id, pair.chosen) for pair in loaded.pairs] == [
        ("ann", "No – never."), ("ann", "Yes."),
    ]  # fmt: skip
    assert path.stat().st_mode & 0o077 == 0, "what people chose is theirs"
    assert "palate_feedback_total 2.0" in served.call("GET", "/metrics")[1]


def test_what_is_served_splits_as_a_collection_does(tmp_path):
    settings = ServeSettings(feedback=FeedbackFile(tmp_path / "feedback.jsonl", 0.4, seed=3))
    texts = [f"Is n\u00e9e {k}  a word?" for k in range(40)]
    dataset = palate.Dataset.from_rows("words", [
        {"id": k, "question": f" {normalize('NFD', text)} ", "responses": ["Yes.", "No."]}
        for k, text in enumerate(texts)
    ])  # fmt: skip
    options = CollectOptions(raters=2, per_rater=5, test_share=0.4, again=0, seed=3)
    study = plan_collection(dataset, options, tmp_path / "study")
    tested = {
        normal_form(study.items[entry.item].question[-1].content) for entry in study.plan.lists[0]
    }
    with Served(coded(Coded()), settings) as server:
        for text in texts:
            server.post("/feedback", {**CHOICE, "question": text, "responses": ["Yes.", "No."]})
    rows = lines(tmp_path / "feedback.jsonl")
    splits = {normal_form(row["question"]): row["split"] for row in rows}
    assert len(splits) == 40 and 8 < len(tested) < 24
    assert tested == {text for text, split in splits.items() if split == "test"}
    assert set(splits.values()) == {"adapt", "test"}
    learnt = palate.load_benchmark(str(tmp_path / "feedback.jsonl"), split="all").for_training()
    assert len(learnt.pairs) == 40 - len(tested)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"chosen": 2}, "chosen: "), ({"chosen": "yes"}, "chosen: "),
        ({"responses": ["a"]}, "responses: "), ({"responses": ["a", "b", "c"]}, "responses: "),
        ({"responses": ["a", "a"]}, "responses: equals"), ({"chosen": True}, "chosen: "),
        ({"responses": ["a", " "]}, "responses: expected text"),
        ({"question": " "}, "question: "), ({"user": ""}, "user: "), ({"more": 1}, "more: "),
        ({"question": "\ud800"}, "question: "),
    ],
)  # fmt: skip
def test_what_breaks_the_row_contract_is_refused(served, tmp_path, change, says):
    status, reply = served.post("/feedback", {**CHOICE, **change})
    assert (status, reply["detail"].startswith(says)) == (422, True), reply
    assert (tmp_path / "feedback.jsonl").read_text() == ""


def test_nothing_is_acknowledged_that_is_not_on_disk(served, tmp_path, monkeypatch):
    served.post("/feedback", CHOICE)
    path, synced, sync = tmp_path / "feedback.jsonl", [], os.fsync

    def watched(file):
        synced.append(os.fstat(file).st_size)
        sync(file)

    monkeypatch.setattr(os, "fsync", watched)
    served.post("/feedback", CHOICE)
    assert synced == [path.stat().st_size], "synced once, with the whole row"

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    status, reply = served.post("/feedback", CHOICE)
    assert status == 500
    assert reply == {"detail": "the choice is not kept (No space left on device)"}
    assert len(lines(path)) == 2, "nothing of it is left"
    monkeypatch.undo()
    assert served.post("/feedback", CHOICE)[0] == 201
    assert len(lines(path)) == 3


def test_a_last_row_without_a_line_end_stays_and_a_foreign_file_is_refused(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": "1"}\n{"id": "2"}')
    FeedbackFile(path)
    assert path.read_text() == '{"id": "1"}\n{"id": "2"}\n'
    other = tmp_path / "notes.jsonl"
    other.write_text("Buy tea.")
    with pytest.raises(UsageError, match="holds no rows"):
        FeedbackFile(other)
    assert other.read_text() == "Buy tea."


def test_a_line_that_was_cut_short_goes_and_whole_ones_stay(tmp_path):
    path = tmp_path / "feedback.jsonl"
    FeedbackFile(path).append("ann", "Tea?", "Yes.", "No.")
    for torn in (b'{"id": "x', b"\xff" * 200_000):
        with path.open("ab") as file:
            file.write(torn)
        FeedbackFile(path).append("bob", "Tea?", "Yes.", "No.")
    assert [row["user_id"] for row in lines(path)] == ["ann", "bob", "bob"]
    path.write_bytes(b'{"id": "x')
    FeedbackFile(path)
    assert path.read_bytes() == b""


def test_two_processes_and_many_threads_write_whole_lines(tmp_path):
    path = tmp_path / "feedback.jsonl"
    code = (
        "import sys; from pathlib import Path; from palate.serve.feedback import FeedbackFile\n"
        "file = FeedbackFile(Path(sys.argv[1]))\n"
        "for k in range(40): file.append('other', f'{k}?', 'Yes. ' * 500, 'No.')"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(path)]) as other:
        file, done = FeedbackFile(path), threading.Event()
        with ThreadPoolExecutor(4) as go:
            list(go.map(lambda k: file.append("mine", f"{k}?", "Yes. " * 500, "No."), range(40)))
            done.set()
        assert other.wait(60) == 0
    written = lines(path)
    assert sorted(row["user_id"] for row in written) == ["mine"] * 40 + ["other"] * 40
    assert len({row["id"] for row in written}) == 80


def test_a_file_that_cannot_be_one_is_refused_at_the_start(tmp_path):
    with pytest.raises(UsageError, match=r"ends in \.jsonl"):
        FeedbackFile(tmp_path / "x.json")
    with pytest.raises(UsageError, match="cannot be written"):
        FeedbackFile(tmp_path / "none" / "x.jsonl")
    (tmp_path / "f.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot be written"):
        FeedbackFile(tmp_path / "f.jsonl")
    with pytest.raises(DataError):
        FeedbackFile(tmp_path / "g.jsonl").append("ann", "Tea?", "Yes.", "Yes.")


def test_without_a_file_there_is_no_feedback():
    with Served(coded(Coded())) as served:
        status, reply = served.post("/feedback", CHOICE)
    assert (status, reply) == (404, {"detail": "this server keeps no feedback (see --feedback)"})
