"""Killed or failing at any point, a writer leaves the old whole file or the new one."""

from __future__ import annotations

import ast
import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pytest

import palate
from palate.answers import Sample, Samples
from palate.errors import PalateError
from palate.files import whole_file, whole_folder, write_json, write_whole
from palate.learning import PersonalModel, UserStates
from palate.reports.page import write_page
from palate.reports.parts import panels
from palate.reports.parts import save as save_picture
from palate.stores import Documents

SOURCE = Path(__file__).parents[1] / "src" / "palate"
OPEN = Path.open


class Cut:
    """A stream that takes so many bytes, and then does something else."""

    def __init__(self, stream: BinaryIO, room: int, act: Callable[[], None]) -> None:
        self._stream, self._room, self._act = stream, room, act

    def write(self, data: bytes) -> int:
        if len(data) > self._room:
            self._stream.write(data[: self._room])
            self._stream.flush()
            self._act()
        self._room -= len(data)
        return self._stream.write(data)

    def __enter__(self) -> Cut:
        return self

    def __exit__(self, *raised: object) -> None:
        self._stream.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def cut_after(room: int, act: Callable[[], None]) -> Callable[..., Any]:
    """Return an `open` whose new files take so many bytes."""

    def opened(path: Path, mode: str = "r", *args: Any, **how: Any) -> Any:
        stream = OPEN(path, mode, *args, **how)
        return Cut(stream, room, act) if mode == "xb" else stream  # type: ignore[arg-type]

    return opened


def full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def samples(path: Path, version: int) -> None:
    Samples("p", ("1", "2"), ((Sample(f"a{version}\ud800"),), (Sample("b"),))).save(path)


def states(path: Path, version: int) -> None:
    UserStates(("ann",), {"w": np.full((1, 9), version, np.float32)}, "m").save(path)


def document(path: Path, version: int) -> None:
    Documents(path.parent).put(path.name, b"reply %d" % version)


def page(path: Path, version: int) -> None:
    write_page(f"<p>{version}, and words", path)


def picture(path: Path, version: int) -> None:
    figure, axes = panels(1, 1, (1, 1))
    axes[0, 0].plot([0, version])
    save_picture(figure, path)


KINDS = {
    "samples.jsonl": samples,
    "users.safetensors": states,
    "rows.jsonl": lambda path, version: write_whole(path, (f"{k + version}\n" for k in range(99))),
    "summary.json": lambda path, version: write_json(path, {"value": [version] * 99}),
    "page.html": page,
    "curve.png": picture,
}


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("room", [0, 1, 8])
def test_a_file_that_could_not_be_written_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, room: int
) -> None:
    write, path = KINDS[name], tmp_path / "a" / name
    monkeypatch.setattr(Path, "open", cut_after(room, full))
    with pytest.raises((PalateError, OSError)):
        write(path, 1)
    assert not list(path.parent.iterdir())
    monkeypatch.setattr(Path, "open", OPEN)
    write(path, 1)
    before = path.read_bytes()
    monkeypatch.setattr(Path, "open", cut_after(room, full))
    with pytest.raises((PalateError, OSError)):
        write(path, 2)
    monkeypatch.setattr(Path, "open", OPEN)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [name]
    write(path, 2)
    assert path.read_bytes() != before


def test_a_document_that_could_not_be_written_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    documents = Documents(tmp_path)
    documents.put("ab12", b"old")
    monkeypatch.setattr(Path, "open", cut_after(70, full))
    with pytest.raises(PalateError, match="cannot be written"):
        documents.put("ab12", b"new")
    assert documents.get("ab12") == b"old"
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_personal_model_that_could_not_be_written_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = tmp_path / "votes.jsonl"
    rows = [{"id": k, "user_id": f"u{k % 4}", "question": f"Which, {k}?",
             "chosen": "yes, and why not" if k % 2 else "no", "rejected": "maybe" + "!" * (k % 5)}
            for k in range(40)]  # fmt: skip
    votes.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    palate.train("bradley-terry", votes, tmp_path / "model", embedders=["style"])
    model = PersonalModel.load(tmp_path / "model")
    other = replace(model, facts={**model.facts, "seed": 7})
    before = {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()}
    for room in (0, 60):
        monkeypatch.setattr(Path, "open", cut_after(room, full))
        with pytest.raises(PalateError, match="cannot be written"):
            other.save(tmp_path / "model")
        monkeypatch.setattr(Path, "open", OPEN)
        assert {path.name: path.read_bytes() for path in (tmp_path / "model").iterdir()} == before
    other.save(tmp_path / "model")
    assert PersonalModel.load(tmp_path / "model").facts["seed"] == 7


CHILD = """
import sys
sys.path[:0] = {paths!r}
import os, signal
from pathlib import Path
from test_files import cut_after
from palate.files import write_whole

Path.open = cut_after({room}, lambda: os.kill(os.getpid(), signal.SIGKILL))
write_whole(Path({path!r}), ("new %d\\n" % k for k in range(9)))
"""


@pytest.mark.parametrize("room", [0, 5, 6, 20, 53])
def test_a_killed_writer_leaves_the_old_file_and_the_next_one_takes_its_rest_away(
    tmp_path: Path, room: int
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("old\n")
    paths = [str(Path(__file__).parent), *sys.path]
    code = CHILD.format(paths=paths, room=room, path=str(path))
    done = subprocess.run([sys.executable, "-c", code], check=False, timeout=300)
    assert done.returncode == -signal.SIGKILL
    assert path.read_text() == "old\n"
    assert len(list(tmp_path.iterdir())) == 2
    write_whole(path, "next\n")
    assert path.read_text() == "next\n"
    assert list(tmp_path.iterdir()) == [path]


def test_writers_of_one_file_do_not_take_each_others_rest_away(tmp_path: Path) -> None:
    path = tmp_path / ("long" * 60 + ".jsonl")
    with whole_file(path) as first:
        first.write(b"first")
        write_whole(path, "second")
        assert path.read_text() == "second"
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", "text")
    assert (tmp_path / "file").read_text() == "text"
    assert (tmp_path / "link").is_symlink()


def test_a_folder_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    with pytest.raises(KeyError), whole_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("w")
        raise KeyError
    assert not list(tmp_path.iterdir())
    with whole_folder(tmp_path / "model") as folder:
        (folder / "weights").write_text("w")
        assert not (tmp_path / "model").exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["model", "weights"]


WRITER = "files.py"
ELSEWHERE = {
    "learning/recipes.py: save_pretrained": "in a new folder, which appears whole",
    "models/gguf.py: save_pretrained": "in a new folder, which appears whole",
    "runs/journal.py: open": "append-only, cut back to its last whole batch; an empty file to lock",
    "serve/feedback.py: fdopen": "the same file",
    "serve/feedback.py: open": "append-only lines, cut back to the last whole one",
    "stores.py: touch": "an empty file that tells whether the folder can be written",
    "stores.py: open": "append-only tables, cut back to the last whole row; their lock",
    "trainers/training.py: SummaryWriter": "TensorBoard appends to its own file",
    "trainers/training.py: open": "append-only lines, cut back where a run goes on",
}
"""Who else writes files, and why the writer is not for them."""
NAMES = {
    "NamedTemporaryFile", "SummaryWriter", "fdopen", "mkstemp", "rename", "save_file",
    "save_pretrained", "to_parquet", "tofile", "touch", "write_bytes", "write_text",
}  # fmt: skip
IN_A_STREAM = {"savefig", "write_table"}
"""These take a stream or a path."""


def name_of(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def opens_for_writing(call: ast.Call) -> bool:
    if name_of(call) != "open":
        return False
    words = [*call.args, *(keyword.value for keyword in call.keywords)]
    if ast.unparse(call.func) == "os.open":
        return any(flag in ast.unparse(word) for word in words for flag in ("O_RDWR", "O_WRONLY"))
    modes = [word.value for word in words if isinstance(word, ast.Constant)]
    short = [mode for mode in modes if isinstance(mode, str) and len(mode) <= 3]
    return any({*mode} & {*"wax+"} for mode in short)


def writes(tree: ast.AST) -> Iterator[str]:
    """Yield the calls that write a file by its name, or put one in place."""
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        name = name_of(call)
        by_path = name in NAMES or (
            name in IN_A_STREAM and "stream" not in {ast.unparse(word) for word in call.args}
        )
        method = isinstance(call.func, ast.Attribute) and not call.keywords
        moves = method and name == "replace" and len(call.args) == 1  # a text takes two
        moves |= name == "replace" and ast.unparse(call.func) == "os.replace"
        if by_path or moves or opens_for_writing(call):
            yield name


def test_one_function_opens_files_for_writing() -> None:
    there = {
        f"{path.relative_to(SOURCE).as_posix()}: {name}"
        for path in sorted(SOURCE.rglob("*.py"))
        for name in writes(ast.parse(path.read_text(encoding="utf-8")))
        if path != SOURCE / WRITER
    }
    assert there - {*ELSEWHERE} == set(), "write with palate.files"
    assert {*ELSEWHERE} - there == set(), "take out what is no exception any more"


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("path.open('w')", ["open"]),
        ("open(path, mode='ab')", ["open"]),
        ("os.open(path, os.O_RDWR | os.O_CREAT)", ["open"]),
        ("path.open(encoding='utf-8')", []),
        ("os.open(path, os.O_RDONLY)", []),
        ("unfinished.replace(path)", ["replace"]),
        ("text.replace('a', 'b')", []),
        ("slate.replace(user=None)", []),
        ("figure.savefig(file, dpi=9)", ["savefig"]),
        ("figure.savefig(stream, dpi=9)", []),
        ("path.write_text(text)", ["write_text"]),
    ],
)
def test_the_check_sees_what_it_looks_for(code: str, seen: list[str]) -> None:
    assert list(writes(ast.parse(code))) == seen
