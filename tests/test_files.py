"""Files are whole at any time: old, or new."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from palate.answers import Sample, Samples
from palate.files import whole_file, write_json, write_whole
from palate.learning.personal import UserStates


def torn(parts: int) -> Iterator[str]:
    """Yield some parts, and fail."""
    for number in range(parts):
        yield f"{number}\n" * 10_000
    raise RuntimeError("the power is gone")


@pytest.mark.parametrize("old", [None, "old"])
def test_an_error_on_the_way_leaves_the_old_file_alone(tmp_path: Path, old: str | None) -> None:
    file = tmp_path / "rows.jsonl"
    if old is not None:
        write_whole(file, old)
    with pytest.raises(RuntimeError, match="power"):
        write_whole(file, torn(3))
    assert [each.read_text() for each in tmp_path.iterdir()] == ([] if old is None else [old])


def test_nobody_reads_half_a_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    write_whole(file, "old")
    with whole_file(file) as stream:
        stream.write(b"new")
        stream.flush()
        assert file.read_text() == "old"
    assert file.read_text() == "new"


def test_json_is_without_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", {"value": float("nan")})
    assert not list(tmp_path.iterdir())


KILLED = """
import sys
from pathlib import Path
from palate.files import write_whole

def lines():
    for number in range(10**9):
        if number == 1000:
            print("writing", flush=True)
        yield "new" * 1000

write_whole(Path(sys.argv[1]), lines())
"""


def test_a_process_that_is_killed_leaves_the_old_file(tmp_path: Path) -> None:
    file = tmp_path / "rows.jsonl"
    write_whole(file, "old")
    with subprocess.Popen([sys.executable, "-c", KILLED, str(file)], stdout=subprocess.PIPE) as it:
        assert it.stdout is not None and it.stdout.readline() == b"writing\n"
        time.sleep(0.05)
        it.send_signal(signal.SIGKILL)
    assert file.read_text() == "old"


def samples(text: str) -> Samples:
    return Samples("p", ("r",), ((Sample(text),),))


@pytest.mark.parametrize(
    "save",
    [
        lambda file, text: samples(text).save(file),
        lambda file, text: UserStates(("u",), {"x": np.full((1, 2), len(text))}, "m").save(file),
    ],
    ids=["samples", "states"],
)
def test_samples_and_states_are_written_by_it(
    save: Callable[[Path, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "kept"
    save(file, "old")
    before = file.read_bytes()

    def fails(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fails)
    with pytest.raises(Exception, match="No space left"):
        save(file, "newer")
    assert file.read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
