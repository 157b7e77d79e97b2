"""A million vectors stream from disk."""

import resource

import numpy as np

from palate.stores import Vectors


def test_a_million_vectors_stream_in_memory_that_does_not_grow(tmp_path):
    store, n, width = Vectors(tmp_path, 384), 1_000_000, 384
    names = np.arange(n, dtype=np.uint64)
    table = np.zeros((n, 2), np.uint64)
    table[:, 0] = names * np.uint64(0x9E3779B97F4A7C15)
    table[:, 1] = names + np.uint64(1)
    every = np.ascontiguousarray(table).view("V16")[:, 0]
    for first in range(0, n, 50_000):
        some = slice(first, first + 50_000)
        vectors = np.repeat((names[some] % 1000)[:, None].astype(np.float16), width, axis=1)
        store.append(every[some], vectors)
    found = store.find(every)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    blocks = (store.read(found[first : first + 65_536]) for first in range(0, n, 65_536))
    total = sum(float(block[:, 0].astype(np.float64).sum()) for block in blocks)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert total == (names % 1000).sum()
    # A block of 65,536 rows is 48 MiB, pages of the file that were read may stay mapped beside it.
    assert grown < 1024, f"{grown:.0f} MiB for 732 MiB of vectors"
