"""Vectors on disk: found again, whole after a kill, in memory that does not grow."""

from __future__ import annotations

import hashlib
import multiprocessing

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.errors import ModelError
from palate.stores import Vectors, as_keys


def keys(*names: int):
    return as_keys([hashlib.sha256(str(name).encode()).digest() for name in names])


def rows(*names: int, width: int = 4) -> np.ndarray:
    return np.stack([np.arange(width) + name for name in names]).astype(np.float16)


def test_what_was_stored_is_found_and_the_rest_is_not(tmp_path):
    store = Vectors(tmp_path, 4)
    assert store.find(keys(1)).tolist() == [-1]
    store.append(keys(1, 2), rows(1, 2))
    store.append(keys(3), rows(3))
    found = store.find(keys(3, 9, 1))
    assert found.tolist() == [2, -1, 0]
    assert np.array_equal(store.read(found[[0, 2]]), rows(3, 1))
    again = Vectors(tmp_path, 4)
    assert len(again) == 3
    assert again.find(keys(2)).tolist() == [1]


def test_a_key_that_ends_in_zeros_is_its_own(tmp_path):
    store = Vectors(tmp_path, 4)
    names = as_keys([b"a" + b"\0" * 15, b"a" + b"\0" * 14 + b"b"])
    store.append(names, rows(1, 2))
    assert store.find(names).tolist() == [0, 1]


@settings(max_examples=30, deadline=None)
@given(cut=st.integers(0, 80), which=st.sampled_from(["vectors", "keys"]))
def test_a_writer_killed_at_any_byte_costs_only_what_was_not_whole(tmp_path_factory, cut, which):
    folder = tmp_path_factory.mktemp("store")
    Vectors(folder, 4).append(keys(*range(5)), rows(*range(5)))
    file = folder / which
    content = file.read_bytes()
    left = content[: max(0, len(content) - cut)]
    file.write_bytes(left)
    whole = len(left) // (8 if which == "vectors" else 16)
    store = Vectors(folder, 4)
    assert len(store) == whole
    store.append(keys(7, 8), rows(7, 8))
    found = store.find(keys(*range(whole), 7, 8))
    assert found.tolist() == list(range(whole + 2))
    assert np.array_equal(store.read(found), rows(*range(whole), 7, 8))


def _write(folder, first):
    for k in range(first, first + 20):
        Vectors(folder, 4).append(keys(k), rows(k))


def test_two_writers_do_not_mix_their_rows(tmp_path):
    writers = [
        multiprocessing.get_context("spawn").Process(target=_write, args=(tmp_path, first))
        for first in (0, 100)
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    store, names = Vectors(tmp_path, 4), [*range(20), *range(100, 120)]
    assert np.array_equal(store.read(store.find(keys(*names))), rows(*names))


def test_what_does_not_fit_is_refused(tmp_path):
    store = Vectors(tmp_path, 4)
    with pytest.raises(ModelError, match=r"vectors of \(3,\) in a table of width 4"):
        store.append(keys(1), np.zeros((1, 3)))
    with pytest.raises(ModelError, match="does not fit into float16"):
        store.append(keys(1), np.full((1, 4), 1e6))
    assert len(Vectors(tmp_path, 4)) == 0
