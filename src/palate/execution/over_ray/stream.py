"""A Ray dataset's results, drawn by a thread so that waiting for them can end."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from palate.errors import EngineError
from palate.execution.over_ray.cluster import one_line

WAIT_S = 1.0


class Stream:
    """Draws what a dataset gives, in a thread of its own."""

    def __init__(self, ray: Any, dataset: Any) -> None:
        self._queue: queue.Queue[tuple[int, bytes] | BaseException | None] = queue.Queue(64)
        self._stopped = threading.Event()
        self._ray, self._make = ray, dataset
        self._dataset: Any = None
        self._thread = threading.Thread(target=self._draw, daemon=True, name="palate-ray")
        self._thread.start()

    def next(self, timeout: float) -> tuple[int, bytes] | None:
        """Return what came, None at the end; raises `queue.Empty` or the `EngineError`."""
        came = self._queue.get(timeout=timeout)
        if isinstance(came, BaseException):
            raise EngineError(f"engine ray: {one_line(came)}") from came
        return came

    def stop(self) -> None:
        """End the dataset's work; nothing more is drawn."""
        self._stopped.set()
        executor = getattr(self._dataset, "_current_executor", None)
        if executor is not None:
            executor.shutdown(force=True)

    def _draw(self) -> None:
        with _quiet(self._ray):
            try:
                self._dataset = self._make()
                batches = self._dataset.iter_batches(
                    batch_size=None, batch_format="pyarrow", prefetch_batches=0
                )
                for table in batches:
                    for row in table.to_pylist():
                        self._put((row["unit"], row["reply"]))
                    if self._stopped.is_set():
                        return
                self._put(None)
            except BaseException as error:
                self._put(error)

    def _put(self, item: tuple[int, bytes] | BaseException | None) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(item, timeout=WAIT_S)
                return
            except queue.Full:
                continue


@contextmanager
def _quiet(ray: Any) -> Iterator[None]:
    # Ray's bars and notices would run into palate's own; set back after.
    context = ray.data.DataContext.get_current()
    names = ("enable_progress_bars", "enable_operator_progress_bars", "print_on_execution_start")
    before = {name: getattr(context, name) for name in names}
    log = logging.getLogger("ray.data")
    levels = {handler: handler.level for handler in log.handlers}
    try:
        for name in names:
            setattr(context, name, False)
        for handler in log.handlers:
            if not isinstance(handler, logging.FileHandler):
                handler.setLevel(logging.CRITICAL + 1)
        yield
    finally:
        for name, value in before.items():
            setattr(context, name, value)
        for handler, level in levels.items():
            handler.setLevel(level)
