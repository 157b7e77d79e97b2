"""Coroutines side by side, behind a plain generator."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Generator, Iterable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Self, TypeVar

Job = TypeVar("Job")
R = TypeVar("R")


class LoopThread:
    """An event loop in a thread of its own, for callers that run in a loop already."""

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="palate-http", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.get_loop().run_forever()

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Return what a coroutine gives in the loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def side_by_side(
        self,
        work: Callable[[Job], Coroutine[Any, Any, R]],
        jobs: Iterable[Job],
        most: Callable[[], int],
    ) -> Generator[tuple[int, R]]:
        """Yield (position, result) as they come; jobs are drawn in the caller's thread.

        At most so many jobs as `most` then says are drawn and not yet yielded. Whatever ends the
        generator, an error or its closing, calls off what is under way before it returns.
        """
        done: SimpleQueue[Future[tuple[int, R]]] = SimpleQueue()
        source, inside = enumerate(jobs), 0

        async def placed(position: int, job: Job) -> tuple[int, R]:
            return position, await work(job)

        try:
            while True:
                while inside < most() and (drawn := next(source, None)) is not None:
                    future = asyncio.run_coroutine_threadsafe(placed(*drawn), self._loop)
                    future.add_done_callback(done.put)
                    inside += 1
                    if not done.empty():
                        break  # what has come goes first
                if not inside:
                    return
                yield done.get().result()
                inside -= 1
        finally:
            self.wait(_call_off())


async def _call_off() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
