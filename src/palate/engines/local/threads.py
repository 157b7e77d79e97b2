"""Independent pieces of work side by side on a CPU, one thread each.

A small model leaves the threads of one matrix product waiting for each other; two slates on one
thread each finish sooner than one after the other on two. What a piece of work gives does not
depend on how many run beside it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")
MOST_WORKERS = 8


def workers(torch: Any, device: str) -> int:
    """Return how many jobs run side by side: on an accelerator, or with one thread, one."""
    return min(torch.get_num_threads(), MOST_WORKERS) if device == "cpu" else 1


def spread(
    torch: Any, device: str, jobs: Iterable[tuple[Key, Callable[[], Result]]]
) -> Iterator[tuple[Key, Result]]:
    """Yield (key, result) in order; jobs are drawn by the caller's thread, a few ahead.

    So what makes the jobs, such as a tokenizer, need not be safe between threads.
    """
    threads, most = torch.get_num_threads(), workers(torch, device)
    if most < 2:
        for key, job in jobs:
            yield key, job()
        return
    each = threads // most
    waiting: deque[tuple[Key, Future[Result]]] = deque()
    torch.set_num_threads(each)
    pool = ThreadPoolExecutor(most, initializer=torch.set_num_threads, initargs=(each,))
    try:
        for key, job in jobs:
            waiting.append((key, pool.submit(job)))
            if len(waiting) > most:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
