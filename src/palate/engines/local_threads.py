"""Independent pieces of work side by side on a CPU, one thread each.

A small model leaves the threads of one matrix product waiting for each other; two slates on one
thread each finish sooner than one after the other on two. What a piece of work gives does not
depend on how many run beside it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

Key = TypeVar("Key")
Result = TypeVar("Result")
MOST_WORKERS = 8


class FairLock:
    """One caller's work at a time, callers in turn; pieces of one caller's work run side by side.

    A caller is a thread. It is asked for before each pass, and a caller that waits is let in before
    the next pass of another. While a caller's own thread is inside, all of its passes are.
    """

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._waiting: deque[int] = deque()
        self._caller: int | None = None
        self._inside = self._by_itself = 0

    @contextmanager
    def of(
        self, caller: int | None = None, closed: threading.Event | None = None
    ) -> Iterator[None]:
        """Wait for the caller's turn, by default this thread's; `Closed` where it is called off."""
        thread = threading.get_ident()
        caller = thread if caller is None else caller
        with self._change:
            self._waiting.append(caller)
            try:
                self._change.wait_for(lambda: self._may(caller) or (closed and closed.is_set()))
            finally:
                self._waiting.remove(caller)
                self._change.notify_all()
            if closed and closed.is_set():
                raise Closed
            self._caller = caller
            self._inside += 1
            self._by_itself += caller == thread
        try:
            yield
        finally:
            with self._change:
                self._inside -= 1
                self._by_itself -= caller == thread
                if not self._inside:
                    self._caller = None
                self._change.notify_all()

    def call_off(self, closed: threading.Event) -> None:
        """Let nobody wait on who works for this any more."""
        with self._change:
            closed.set()
            self._change.notify_all()

    def _may(self, caller: int) -> bool:
        if self._caller is None:
            return self._waiting[0] == caller
        alone = all(waiting == caller for waiting in self._waiting)
        return self._caller == caller and (self._by_itself > 0 or alone)


class Closed(Exception):
    """Work that nobody waits for any more."""


def workers(torch: Any, device: str) -> int:
    """Return how many jobs run side by side: on an accelerator, or with one thread, one."""
    return min(torch.get_num_threads(), MOST_WORKERS) if device == "cpu" else 1


def map_ordered(
    torch: Any,
    device: str,
    jobs: Iterable[tuple[Key, Callable[[], Result]]],
    turns: FairLock | None = None,
) -> Iterator[tuple[Key, Result]]:
    """Yield (key, result) in order; jobs are drawn by the caller's thread, a few ahead.

    So what makes the jobs, such as a tokenizer, need not be safe between threads. With `turns` each
    job waits until no other caller's runs; nobody's turn lasts while this waits to be asked on.
    """
    caller, turns, closed = threading.get_ident(), turns or FairLock(), threading.Event()

    def run(job: Callable[[], Result]) -> Result:
        with turns.of(caller, closed):
            return job()

    with turns.of():
        threads, most = torch.get_num_threads(), workers(torch, device)
        pool = _pool(torch, most, threads // most) if most > 1 else None
        torch.set_num_threads(threads)  # a thread that begins takes what was set last
    if pool is None:
        for key, job in jobs:
            yield key, run(job)
        return
    waiting: deque[tuple[Key, Future[Result]]] = deque()
    try:
        for key, job in jobs:
            waiting.append((key, pool.submit(run, job)))
            if len(waiting) > most:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        turns.call_off(closed)  # perhaps in another thread, which may be inside
        pool.shutdown(cancel_futures=True)


def _pool(torch: Any, size: int, threads: int) -> ThreadPoolExecutor:
    """Return a pool whose workers are all there, each with so many threads of torch."""

    def begin() -> None:
        torch.set_num_threads(threads)
        torch.get_num_threads()  # else torch takes, at its first work, what was set last anywhere

    pool = ThreadPoolExecutor(size, initializer=begin)
    started = threading.Barrier(size + 1)
    try:
        for _ in range(size):
            pool.submit(started.wait)
        started.wait()
    except BaseException:
        started.abort()
        raise
    return pool
