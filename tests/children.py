"""Calls of a test file in processes of their own, such as one that kills itself."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def called(file: str, call: str) -> int:
    """Run a call of a test file, whose names begin with `here.`, and return how it ended."""
    test = Path(file)
    paths = [str(test.parent), *sys.path]
    code = f"import sys\nsys.path[:0] = {paths!r}\nimport {test.stem} as here\nhere.{call}"
    return subprocess.run([sys.executable, "-c", code], check=False, timeout=300).returncode
