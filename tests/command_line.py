"""palate as typed, in this process: a new one would import everything again, a second or more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from unittest.mock import patch

from typer.testing import CliRunner

from palate.cli import app, main

Palate = Callable[..., tuple[int, str, str]]
"""The fixture `palate`: the exit code, what was printed, and the errors on one line."""


def palate(*words: object, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Return what `main` printed and its exit code; what it does not catch is raised."""
    out, err, code = StringIO(), StringIO(), 0
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        chdir(cwd),
        patch.dict(os.environ, {"COLUMNS": "200", "NO_COLOR": "1", **env}),
        patch.object(sys, "argv", ["palate", *map(str, words)]),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def palate_process(*words: str, cwd: Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Return the same of a process of its own, as a person starts it."""
    return subprocess.run(
        [sys.executable, "-m", "palate", *words],
        cwd=cwd, text=True, capture_output=True, timeout=120, check=False,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1", **env},
    )  # fmt: skip


def run(*words: object) -> str:
    """Return what a command printed that ends well; what it raises is raised."""
    done = CliRunner().invoke(app, [str(word) for word in words])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def write_rows(path: Path, rows: Iterable[object]) -> Path:
    """Write rows as JSONL; return the file."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
