"""What tests of exports share: a served scorer, and the files of a folder as modules."""

from __future__ import annotations

import importlib.util
import os
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

KEY = {"EXPORT_TEST_KEY": "s3cr3t-t0ken"}


def free_address() -> str:
    """Return an address of the loopback on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def module(path: Path) -> Any:
    """Load a file of an export by its path, as verl and OpenRLHF do."""
    spec = importlib.util.spec_from_file_location(f"exported_{abs(hash(path))}", path)
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def serving(command: str, url: str) -> subprocess.Popen[str]:
    """Run the command that an export printed, until it is ready."""
    palate, *words = shlex.split(command)
    assert palate == "palate"
    process = subprocess.Popen(
        (sys.executable, "-m", "palate", *words), text=True, env={**os.environ, **KEY},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    for _ in range(1200):
        assert process.poll() is None, f"{command}: it ended"
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=10):
                return process
        except OSError:
            time.sleep(0.1)
    process.kill()
    raise AssertionError(f"{command}: never ready")
