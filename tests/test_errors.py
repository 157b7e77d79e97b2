from __future__ import annotations

import errno
import inspect
import os

import pytest

from palate import errors
from palate.errors import (
    DataError,
    OutsideError,
    PalateError,
    ResourceError,
    RunError,
    UnscoredError,
    UsageError,
    writing,
)

TREE = [
    kind for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, PalateError) and kind is not PalateError
]  # fmt: skip


def test_the_docstring_draws_the_whole_tree() -> None:
    assert len(TREE) >= 11
    for kind in TREE:
        assert kind.__name__ in (errors.__doc__ or "")


@pytest.mark.parametrize("kind", TREE)
def test_every_error_is_the_users_or_the_worlds(kind: type[PalateError]) -> None:
    codes = {UnscoredError: 1, UsageError: 2, OutsideError: 3}
    assert [kind.exit_code] == [code for of, code in codes.items() if issubclass(kind, of)]


def test_a_data_error_says_where() -> None:
    error = DataError("expected text, got int", file="a.jsonl", line=3, field="chosen")
    assert str(error) == "a.jsonl:3: `chosen`: expected text, got int"
    assert (error.file, error.line, error.field) == ("a.jsonl", 3, "chosen")


def test_a_data_error_says_only_what_is_known() -> None:
    assert str(DataError("no such file", file="a.jsonl")) == "a.jsonl: no such file"
    assert str(DataError("missing", field="id")) == "`id`: missing"
    assert str(DataError("bad")) == "bad"
    assert str(DataError("bad", file="a", line=0)) == "a:0: bad"


def test_a_data_error_is_one_line_whatever_it_quotes() -> None:
    error = DataError("missing; the row has a\nb", file="x\ny.jsonl", line=1, field="q\r\n")
    assert str(error).splitlines() == [str(error)]


@pytest.mark.parametrize(
    ("number", "kind"), [(errno.ENOSPC, ResourceError), (errno.EACCES, RunError)]
)
def test_a_full_disk_is_the_outside_world_whatever_is_written(number, kind) -> None:
    with pytest.raises(kind, match="runs/x: cannot be written"), writing("runs/x", RunError):
        raise OSError(number, os.strerror(number))
