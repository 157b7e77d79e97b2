"""The cluster: joined or started, and asked for its room."""

from __future__ import annotations

import logging
import os
from typing import Any

from palate.errors import EngineError, UsageError

STARTING = {
    "RAY_BACKEND_LOG_LEVEL": "fatal",  # its notices go to our stderr
    # A worker that registers late is ended and begun again: on a busy machine, without an end.
    "RAY_worker_register_timeout_seconds": "600",
}
"""What a cluster of our own reads while it starts."""


def connect(address: str) -> Any:
    """Join the cluster at an address, or start one; returns the module `ray`."""
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            f"engine ray needs Ray ({error.name} is missing): pip install 'palate[ray]'"
        ) from error
    if ray.is_initialized():
        return ray
    dashboard = None
    if address == "local":
        dashboard = False
        for name, value in STARTING.items():
            os.environ.setdefault(name, value)
    try:
        ray.init(
            address,
            include_dashboard=dashboard,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
    except (ConnectionError, ValueError, RuntimeError, OSError, TimeoutError) as error:
        raise EngineError(
            f"engine ray: no cluster at address={address} ({one_line(error)}); "
            "expected auto, local or HOST:6379"
        ) from error
    return ray


def require(ray: Any, workers: int, threads: int, gpus: int) -> None:
    """Raise `UsageError` where the cluster is too small for the workers."""
    for each, unit, key in ((threads, "threads", "CPU"), (gpus, "GPUs", "GPU")):
        there = ray.cluster_resources().get(key, 0.0)
        if workers * each > there:
            raise UsageError(
                f"engine ray: {workers} workers of {each} {unit} need {workers * each} {key}s "
                f"and the cluster has {there:g}; ask for fewer"
            )


def free(ray: Any) -> str:
    """Say how many CPUs nobody claims."""
    there, idle = ray.cluster_resources(), ray.available_resources()
    return f"{idle.get('CPU', 0):g} of {there.get('CPU', 0):g} CPUs are free"


def one_line(error: BaseException) -> str:
    """Return an error's message on one line, without a remote traceback."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    remote = "ray::" in str(error) or "Traceback" in str(error)
    message = lines[-1] if lines and remote else " ".join(lines)
    return f"{type(error).__name__}: {message[:300]}"
