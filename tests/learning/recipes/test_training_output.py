"""A model folder appears whole or not at all."""

from __future__ import annotations

import os

import pytest

from palate.errors import UsageError
from palate.learning.recipes import new_folder


@pytest.mark.parametrize("exists", [False, True])
def test_a_new_or_empty_folder_is_filled(tmp_path, exists):
    target = tmp_path / "models" / "rm"
    if exists:
        target.mkdir(parents=True)
    with new_folder(target) as made:
        (made / "weights").write_text("w")
        assert not target.exists() or not list(target.iterdir())
    assert [f.name for f in target.iterdir()] == ["weights"]
    assert [f.name for f in target.parent.iterdir()] == ["rm"]


def test_a_failure_leaves_nothing(tmp_path):
    with pytest.raises(KeyError), new_folder(tmp_path / "rm") as made:
        (made / "weights").write_text("w")
        raise KeyError
    assert not list(tmp_path.iterdir())


def test_what_is_there_is_never_overwritten(tmp_path):
    (tmp_path / "weights").write_text("theirs")
    for taken in (tmp_path, tmp_path / "weights"):
        with pytest.raises(UsageError, match="exists already"), new_folder(taken):
            pytest.fail("went on")
    assert (tmp_path / "weights").read_text() == "theirs"


def test_a_place_that_cannot_be_written_is_refused_first(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"), new_folder(tmp_path / "file" / "rm"):
        pytest.fail("went on")
    if os.geteuid():
        tmp_path.chmod(0o500)
        with pytest.raises(UsageError, match="cannot be written"), new_folder(tmp_path / "rm"):
            pytest.fail("went on")
