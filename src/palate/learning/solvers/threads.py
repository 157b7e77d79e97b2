"""One BLAS thread where systems are small.

A BLAS divides every product over its threads, and those that have nothing to do spin until the
next. Where many small systems are solved one after another they cost more than they save.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import get_cached_controller

LARGE = 2**24
"""From so many float64 numbers on (128 MiB) a product keeps every thread busy."""
_limited = threading.Lock()


@contextmanager
def one_blas_thread(largest: int = 0) -> Iterator[None]:
    """Limit BLAS to one thread within the block, unless its largest matrix has `LARGE` numbers.

    The limit holds for the whole process, and only the first of several blocks sets and lifts it;
    what overlaps in another Python thread may go on with more. torch's threads are let alone.

    >>> from threadpoolctl import threadpool_info
    >>> with one_blas_thread():
    ...     {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} <= {1}
    True
    """
    # Were each block to restore what it met, the last of two that overlap would leave one thread.
    if largest >= LARGE or not _limited.acquire(blocking=False):
        yield
        return
    try:
        with get_cached_controller().limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()
