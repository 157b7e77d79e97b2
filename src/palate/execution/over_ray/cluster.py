"""The cluster: joined or started, what of it each worker holds, and what is left."""

from __future__ import annotations

import logging
import os
from typing import Any

from palate.errors import EngineError, UsageError

ADDRESSES = "auto, local, ray://HOST:10001 or HOST:6379"


def connect(address: str) -> Any:
    """Join the cluster at an address, or start one; returns the module `ray`."""
    try:
        import ray
        import ray.data
    except ImportError as error:
        raise UsageError(
            f"engine ray needs Ray ({error.name} is missing): pip install 'palate[ray]'"
        ) from error
    if ray.is_initialized():
        return ray
    where: dict[str, Any] = {"address": address}
    if address == "local":
        where |= {"include_dashboard": False}
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # its notices go to our stderr
    try:
        ray.init(**where, log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, ValueError, RuntimeError, OSError, TimeoutError) as error:
        raise EngineError(
            f"engine ray: no cluster at address={address} ({one_line(error)}); expected {ADDRESSES}"
        ) from error
    return ray


def share_of_cpus(there: dict[str, float], workers: int, threads: int, gpus: int) -> float:
    """Return the CPUs each worker claims; raises `UsageError` where there are too few."""
    # One CPU is left for what reads and moves data: actors that hold every CPU would wait for
    # it for ever. What an actor holds is bookkeeping; how many threads it runs is set apart.
    cpus, cards = there.get("CPU", 0.0), there.get("GPU", 0.0)
    if workers * threads > cpus:
        raise UsageError(
            f"engine ray: {workers} workers of {threads} threads need "
            f"{workers * threads} CPUs and the cluster has {cpus:g}; ask for fewer"
        )
    if workers * gpus > cards:
        raise UsageError(
            f"engine ray: {workers} workers of {gpus} GPUs need "
            f"{workers * gpus} and the cluster has {cards:g}; ask for fewer"
        )
    unclaimed = max(cpus - 1, cpus / 2)
    return float(int(10_000 * min(threads, unclaimed / workers)) / 10_000)


def free(ray: Any) -> str:
    """Say how many CPUs nobody claims."""
    there, idle = ray.cluster_resources(), ray.available_resources()
    return f"{idle.get('CPU', 0):g} of {there.get('CPU', 0):g} CPUs are free"


def one_line(error: BaseException) -> str:
    """Return what an error says on one line, without a remote traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[-1] if lines and lines[0].startswith(("ray::", "Traceback")) else " ".join(lines)
    return f"{type(error).__name__}: {said[:300]}"
