"""What runs on a worker: a contestant built once, and units scored one after the other.

What goes wrong travels back as a value, so that it reaches the user as one line and costs no retry.
"""

from __future__ import annotations

import pickle
import sys
import time
from typing import Any

from palate.errors import PalateError
from palate.execution.runner import compute
from palate.records import Settings, components_of
from palate.scorers import build_scorer

BEAT_EVERY_S = 1.0


class Worker:
    """Scores units of one component of a scorer; the model is loaded at the first."""

    def __init__(
        self,
        made_from: str | bytes,
        settings: bytes,
        component: int,
        threads: int,
        paths: list[str],
        pulse: Any,
    ) -> None:
        # A scorer's own module may lie beside the script that named it.
        sys.path += [path for path in paths if path not in sys.path]
        self._made_from, self._component, self._threads = made_from, component, threads
        self._settings: Settings = pickle.loads(settings)
        self._pulse, self._beat_at = pulse, 0.0
        self._contestant: Any = None

    def __call__(self, batch: Any) -> Any:
        """Score the one unit of a table; returns a table of its number and the pickled reply."""
        import pyarrow as pa

        unit = batch.column("unit")[0].as_py()
        reply = self.reply(batch.column("slates")[0].as_py())
        return pa.table({"unit": [unit], "reply": pa.array([reply], pa.large_binary())})

    def reply(self, slates: bytes) -> bytes:
        """Return the pickled results, or the error with its exit code."""
        try:
            if self._contestant is None:
                self._told_start()
                self._contestant = self._build()
            self._keep_to_threads()
            found = []
            for position, result in compute(self._contestant, pickle.loads(slates)):
                found.append((position, result))
                self._beat()
            return pickle.dumps(("results", found))
        except PalateError as error:
            return pickle.dumps((type(error).__name__, str(error)))
        except Exception as error:
            said = " ".join(str(error).split())
            return pickle.dumps(("broken", f"{type(error).__name__}: {said}"))

    def _told_start(self) -> None:
        import ray

        own = ray.get_runtime_context()
        try:  # waited for: it must be noted even if this worker dies at once
            ray.get(self._pulse.start.remote(own.get_actor_id(), own.current_actor))
        except ray.exceptions.RayActorError as error:
            raise PalateError("the run that this worker was for is over") from error

    def _build(self) -> Any:
        made = self._made_from
        whole = build_scorer(made, self._settings) if isinstance(made, str) else pickle.loads(made)
        return components_of(whole)[self._component].scorer

    def _keep_to_threads(self) -> None:
        # Beside OMP_NUM_THREADS, which a torch that was loaded earlier has not seen.
        torch = sys.modules.get("torch")
        if torch is not None and torch.get_num_threads() != self._threads:
            torch.set_num_threads(self._threads)

    def _beat(self) -> None:
        now = time.monotonic()
        if now - self._beat_at >= BEAT_EVERY_S:
            self._beat_at = now
            self._pulse.beat.remote()
