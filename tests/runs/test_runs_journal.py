"""A journal ends with its last whole batch, and a line is read wherever it begins."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palate.errors import RunError
from palate.runs import Journal, Line, line_at, located_lines
from palate.runs.journal import whole_bytes

texts = st.one_of(st.text(min_size=1, max_size=30), st.just('"last":true}\n'))
lines = st.builds(
    Line,
    id=texts,
    in_pass=texts,
    keys=st.tuples(texts),
    values=st.tuples(st.one_of(st.none(), st.floats(-1, 1))),
    raw=st.one_of(st.just(()), st.tuples(texts)),
    outage=st.booleans(),
)
batches = st.lists(st.lists(lines, min_size=1, max_size=4), max_size=8)
unlimited = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def plain_end(content: bytes) -> int:
    """Return where the last whole batch ends, read from the beginning."""
    whole = position = 0
    for raw in content.split(b"\n")[:-1]:
        position += len(raw) + 1
        whole = position if json.loads(raw).get("last") is True else whole
    return whole


def write(path: Path, given_batches: list[list[Line]]) -> bytes:
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for batch in given_batches:
            journal.append(batch)
    return path.read_bytes()


@unlimited
@given(batches, st.data())
def test_a_journal_cut_anywhere_ends_with_its_last_whole_batch(
    tmp_path_factory: pytest.TempPathFactory, given_batches: list[list[Line]], data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "end.jsonl"
    content = write(path, given_batches)
    cut = content[: data.draw(st.integers(0, len(content)))]
    path.write_bytes(cut)
    end = whole_bytes(path)
    assert end == plain_end(cut)
    with Journal(path):
        assert path.read_bytes() == cut[:end]


@unlimited
@given(batches)
def test_lines_come_back_as_they_were_from_where_they_lie(
    tmp_path_factory: pytest.TempPathFactory, given_batches: list[list[Line]]
) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.jsonl"
    write(path, given_batches)
    expected = [line for batch in given_batches for line in batch]
    found = [line.model_copy(update={"last": False}) for _, line in located_lines(path)]
    assert found == expected
    with path.open("rb") as file:
        for offset, line in reversed(list(located_lines(path))):
            assert line_at(file, offset, path) == line


@pytest.mark.parametrize("garbage", [b"\0" * 100, b'{"id": "half a', b"\r\n\r\n", b"[1]\n{}\n"])
def test_what_follows_the_last_batch_is_cut(garbage: bytes, tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    line = Line(id="a", in_pass="p", keys=("k",), values=(1.0,))
    content = write(path, [[line], [line, line]])
    path.write_bytes(content + garbage)
    assert len(list(located_lines(path))) == 3
    with Journal(path):
        assert path.read_bytes() == content


def test_a_line_that_is_broken_inside_is_an_error_not_a_loss(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    line = Line(id="a", in_pass="p", keys=("k",), values=(1.0,))
    content = write(path, [[line], [line]])
    path.write_bytes(b"x" + content[1:])
    with pytest.raises(RunError, match=r"journal\.jsonl:1: no line of this version"):
        list(located_lines(path))
