"""A server in a process of its own: it tells its address, is waited for, and ends at SIGTERM."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile

from palate.errors import EngineError, UsageError

ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")
PAUSE = 0.02
TO_END = 60
"""Seconds that a server has to finish what it does."""


class ServerProcess:
    """A running server and what it has printed so far."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path) -> None:
        self._process, self._output = process, output
        self.url = self._address()

    def check(self) -> None:
        """Raise where the server has ended, with its last line.

        Raises `UsageError` where its exit code says that the caller can mend it, else
        `EngineError`.
        """
        if (code := self._process.poll()) is None:
            return
        *_, line = ("no word of why", *self._printed().split("\n"))
        kind = UsageError if code == UsageError.exit_code else EngineError
        raise kind(f"the server ended with exit code {code}: {line.removeprefix('palate: ')}")

    def _address(self) -> str:
        while True:
            if address := ADDRESS.search(self._printed()):
                return address[0]
            self.check()
            time.sleep(PAUSE)

    def _printed(self) -> str:
        return self._output.read_text(encoding="utf-8", errors="replace").strip()


@contextmanager
def served(command: Sequence[str]) -> Iterator[ServerProcess]:
    """Run `python COMMAND` for as long as the context is open.

    Raises as `ServerProcess.check` where it ends before it has printed its address.
    """
    with NamedTemporaryFile() as output:
        words = [sys.executable, *command]
        with subprocess.Popen(words, stdout=output, stderr=output) as process:
            try:
                yield ServerProcess(process, Path(output.name))
            finally:
                process.terminate()
                try:
                    process.wait(TO_END)
                except subprocess.TimeoutExpired:
                    process.kill()
