"""A real vLLM as a process of its own, from the environment that `make servers` sets up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
VLLM = ROOT / ".venv-servers" / "bin" / "vllm"
MISSING = "no real server is set up: run make servers"
START_S = 600
NAME = "served"
QUIET = {
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_NO_USAGE_STATS": "1",
}


@contextmanager
def serve(folder: str | Path, log: Path, *flags: str) -> Iterator[str]:
    """Serve a model in float32 under `NAME`, without compiling it; yields the server's root."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(VLLM), "serve", str(folder), "--served-model-name", NAME, "--host", "127.0.0.1",
               "--port", str(port), "--dtype", "float32", "--enforce-eager", *flags]  # fmt: skip
    with log.open("w") as out:
        # A session of its own: the server starts further processes, and all of them are ended.
        process = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, **QUIET}, start_new_session=True
        )
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(process, url, log)
            yield url
        finally:
            _end(process)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    limit = time.monotonic() + START_S
    while time.monotonic() < limit and process.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    last = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
    raise RuntimeError(f"vLLM did not start within {START_S} s:\n{last}")


def _end(process: subprocess.Popen[bytes]) -> None:
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(20)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue
    process.wait(5)
