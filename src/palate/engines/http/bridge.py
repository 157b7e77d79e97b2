"""A plain generator in front of an event loop in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import Any, Protocol

from palate.engines.http.garbage import fewer_searches

ROOM = 4
"""So many jobs for each that may be under way are held at a time, the rest is not drawn yet."""


class Asker(Protocol):
    """Does one job in the loop it was opened in."""

    async def open(self) -> None:
        """Begin in this event loop."""
        ...

    @property
    def hungry(self) -> bool:
        """True while another job would be of use."""
        ...

    async def one(self, post: Any, /) -> Any:
        """Do one job."""
        ...

    async def close(self) -> None:
        """End."""
        ...


class _Loop:
    """The loop's side; `start`, `give` and `stop` are called from outside.

    Waking the other thread is dear, so the loop is woken only where it has run out of jobs; as
    long as there are some it takes one when one is done.
    """

    def __init__(self, asker: Asker) -> None:
        self.done: SimpleQueue[tuple[int, Any] | BaseException] = SimpleQueue()
        self._asker, self._tasks = asker, set[asyncio.Task[None]]()
        self._jobs: deque[tuple[int, Any]] = deque()
        self._starved = True
        self._ready = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._main()), name="palate-http", daemon=True
        )

    def start(self) -> None:
        self._thread.start()
        self._ready.wait()

    def give(self, position: int, job: Any) -> None:
        self._jobs.append((position, job))
        if self._starved:
            self._starved = False
            with suppress(RuntimeError):  # it could not begin; `done` says why
                self._loop.call_soon_threadsafe(self._take)

    def stop(self) -> None:
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    async def _main(self) -> None:
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        try:
            await self._asker.open()
        except BaseException as error:
            self.done.put(error)
            return
        finally:
            self._ready.set()
        await self._end.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._asker.close()

    def _take(self) -> None:
        while self._asker.hungry or not self._tasks:
            try:
                position, job = self._jobs.popleft()
            except IndexError:
                self._starved = True
                if not self._jobs:  # none came between the two
                    return
                self._starved = False
                continue
            task = self._loop.create_task(self._do(position, job))
            self._tasks.add(task)
            task.add_done_callback(self._over)

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not self._end.is_set():
            self._take()

    async def _do(self, position: int, job: Any) -> None:
        try:
            self.done.put((position, await self._asker.one(job)))
        except Exception as error:
            self.done.put(error)


def carry(asker: Asker, jobs: Iterable[Any], width: int) -> Generator[tuple[int, Any]]:
    """Yield (position, result) as they come; jobs are drawn in the caller's thread.

    At most `ROOM * width` jobs are held at a time. Whatever ends the generator, an error or its
    closing, calls off what is under way before it returns.
    """
    source, inside, more = iter(enumerate(jobs)), 0, True
    loop: _Loop | None = None
    calm = ExitStack()
    try:
        while True:
            while more and inside < ROOM * width:
                drawn = next(source, None)
                if drawn is None:
                    more = False
                    break
                if loop is None:
                    calm.enter_context(fewer_searches())
                    loop = _Loop(asker)
                    loop.start()
                loop.give(*drawn)
                inside += 1
                if not loop.done.empty():
                    break  # what has come goes first
            if not inside or loop is None:
                return
            result = loop.done.get()
            if isinstance(result, BaseException):
                raise result
            inside -= 1
            yield result
    finally:
        if loop is not None:
            loop.stop()
        calm.close()
