"""Decoding, killed anywhere and called again: the same bytes, and nothing finished is redrawn."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from planted_words import documents

from palate.benchmarks import Dataset
from palate.guidance import methods
from palate.records import Gold, Question, Settings
from palate.session import Session
from palate.stores import Documents
from palate.uses.decode import decode
from palate.uses.guides import ROWS

QUESTIONS, N, TOKENS = 7, 6, 5
WIDTH = ROWS // N
"""Questions of which the answers are written together."""
SETTINGS = Settings(dtype="float32", device="cpu")
CHILD = """
import os, signal, sys
sys.path[:0] = {paths!r}
import test_uses_decode_killed as here

def start(label):
    def progress(done, total):
        if {label!r} in label and {after} <= done:
            os.kill(os.getpid(), signal.SIGKILL)
    return progress

here.decoded({model!r}, here.Path({root!r}), start)
"""


def decoded(model, root, start=None, n=N, method="genarm"):
    rows = tuple(
        Question(id=f"r{k}", user_id=f"u{k}", text=f"Which tea at {k} ?",
                 gold=Gold(reference=f"Hot green tea at {k}."))
        for k in range(QUESTIONS)
    )  # fmt: skip
    return decode(
        Dataset("teas", rows), f"{model}?max_tokens={TOKENS}", f"autoregressive:{model}",
        methods=method, qualities="overlap:chrf", n=n, root=root / "runs", settings=SETTINGS,
        session=Session(store=root / "store"), start=start,
    )  # fmt: skip


def results(root):
    """Return the bytes of the result, and of what was written of samples."""
    files = [*(root / "runs").rglob("decode/*/*"), *(root / "runs" / "teas-samples").glob("*")]
    return {path.relative_to(root): path.read_bytes() for path in files}


@pytest.fixture
def written(monkeypatch):
    """Count the rows of each batch that is written."""
    counts: list[int] = []
    write = methods.write

    def counted(stepper, policy, rows, how):
        counts.append(len(rows))
        return write(stepper, policy, rows, how)

    monkeypatch.setattr(methods, "write", counted)
    return counts


@pytest.mark.parametrize("after", [1, 7, 12, 29, QUESTIONS * N])
def test_stopped_after_any_document_gives_the_same_bytes(
    tiny, tmp_path, monkeypatch, written, after
):
    model = tiny.model()
    decoded(model, tmp_path / "whole")
    batches = list(written)
    assert batches == [WIDTH * N] * (QUESTIONS // WIDTH) + [QUESTIONS % WIDTH * N]
    put, guided = Documents.put_json, [0]

    def failing(self, key, value):
        if "guidance" in value:
            if guided[0] == after:
                raise KeyboardInterrupt
            guided[0] += 1
        put(self, key, value)

    with monkeypatch.context() as patched:
        patched.setattr(Documents, "put_json", failing)
        if after < QUESTIONS * N:
            with pytest.raises(KeyboardInterrupt):
                decoded(model, tmp_path / "killed")
        else:
            decoded(model, tmp_path / "killed")
    there = documents(tmp_path / "killed" / "store")
    written.clear()
    decoded(model, tmp_path / "killed")
    unfinished = [] if after == sum(batches) else batches[after // (WIDTH * N) :]
    assert written == unfinished, "whole batches that are there are left alone"
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
    again = documents(tmp_path / "killed" / "store")
    assert {name: again[name] for name in there} == there, "what was there is not written again"
    assert again == documents(tmp_path / "whole" / "store")


def test_killed_in_mid_writing_gives_the_same_bytes(tiny, tmp_path, written):
    model = tiny.model()
    decoded(model, tmp_path / "whole")
    batches, after = list(written), WIDTH * N + 3
    paths = [str(Path(__file__).parent), *sys.path]
    code = CHILD.format(
        paths=paths, model=model, root=str(tmp_path / "killed"), after=after, label="guided by"
    )
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=300, env=env)
    assert done.returncode == -signal.SIGKILL, "it was to be killed before it was through"
    assert len(documents(tmp_path / "killed" / "store")) == QUESTIONS * N + after
    written.clear()
    decoded(model, tmp_path / "killed")
    assert written == batches[1:]
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
    assert documents(tmp_path / "killed" / "store") == documents(tmp_path / "whole" / "store")


def test_segments_stopped_after_any_document_give_the_same_bytes(tiny, tmp_path, monkeypatch):
    model, method = tiny.model(), "blocks?K=2&length=2"
    decoded(model, tmp_path / "whole", method=method)
    put, guided = Documents.put_json, [0]

    def failing(self, key, value):
        guided[0] += "guidance" in value
        if guided[0] == WIDTH * N + 5:
            raise KeyboardInterrupt
        put(self, key, value)

    with monkeypatch.context() as patched:
        patched.setattr(Documents, "put_json", failing)
        with pytest.raises(KeyboardInterrupt):
            decoded(model, tmp_path / "killed", method=method)
    decoded(model, tmp_path / "killed", method=method)
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
    assert documents(tmp_path / "killed" / "store") == documents(tmp_path / "whole" / "store")


def test_more_answers_go_on_from_those_that_are_there(tiny, tmp_path, written):
    model = tiny.model()
    decoded(model, tmp_path, n=2)
    few = documents(tmp_path / "store")
    written.clear()
    decoded(model, tmp_path, n=4)
    assert sum(written) == 2 * QUESTIONS
    more = documents(tmp_path / "store")
    assert {name: more[name] for name in few} == few
    assert len(more) == 2 * 4 * QUESTIONS
