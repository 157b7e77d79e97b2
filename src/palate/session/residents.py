"""Models in memory: several, as many as there is room for, the least recently used going first."""

from __future__ import annotations

import gc
import logging
import os
import threading
from collections.abc import Callable, Hashable
from pathlib import Path

from palate.engines import LocalModel
from palate.models import import_torch

LOG = logging.getLogger("palate")
GIB = 2**30


class Residents:
    """Loaded models by what they were loaded with, within a room of so many bytes of weights.

    Without a room it is half of what is free, models that are loaded already counted as free. A
    model that is in use stays; one larger than the room is loaded alone.
    """

    def __init__(self, room: int | None = None) -> None:
        self._room = room
        self._models: dict[Hashable, LocalModel] = {}  # the least recently used first
        self._lock = threading.RLock()
        self.loaded = 0
        """How many models were loaded in all."""

    def __len__(self) -> int:
        return len(self._models)

    def get(
        self, key: Hashable, device: str, expected: int, load: Callable[[], LocalModel]
    ) -> LocalModel:
        """Return the model of this key, loaded if it is not there; `expected` bytes of weights."""
        with self._lock:
            model = self._models.pop(key, None)
            if model is None:
                self._make_room(device, expected)
                model = load()
                self.loaded += 1
            self._models[key] = model
            return model

    def fit(self, device: str, nbytes: int) -> bool:
        """Tell whether so many bytes of weights would fit, all models that are not in use gone."""
        with self._lock:
            idle = [it for it in self._models.values() if it.device == device and not it.users]
            return nbytes <= free_memory(device) + sum(model.nbytes for model in idle)

    def clear(self) -> None:
        """Let go of all models that are not in use."""
        with self._lock:
            self._models = {key: model for key, model in self._models.items() if model.users}

    def _make_room(self, device: str, expected: int) -> None:
        there = {key: model for key, model in self._models.items() if model.device == device}
        resident = sum(model.nbytes for model in there.values())
        room = self._room if self._room is not None else (free_memory(device) + resident) // 2
        if expected > room:
            LOG.info(
                "a model of %.1f GiB is larger than the room for models (%.1f GiB); it is loaded "
                "alone",
                expected / GIB,
                room / GIB,
            )
        gone = False
        for key, model in there.items():
            if resident + expected > room and not model.users:
                resident -= model.nbytes
                del self._models[key]
                gone = True
        if gone:
            del there, model
            gc.collect()  # a model holds itself in circles
            if device != "cpu":
                import_torch().accelerator.empty_cache()


def free_memory(device: str) -> int:
    """Return how many bytes a device has free."""
    if device == "cpu":
        return _free_of_system()
    torch = import_torch()
    if torch.device(device).type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    return _free_of_system()  # such as Apple's, which share the system's


def _free_of_system() -> int:
    try:
        for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:  # no Linux
        pass
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
