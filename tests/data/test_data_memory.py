"""Reading holds no more of a large file than of a small one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "big_files.py"
FILES = ("rows.csv", "rows.json", "object.json")


def peaks(megabytes: int) -> dict[str, int]:
    untraced = {**os.environ, "COVERAGE_PROCESS_CONFIG": ""}  # tracing takes memory and time
    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--megabytes", str(megabytes), "--files", *FILES],
        capture_output=True, text=True, check=True, env=untraced,
    )  # fmt: skip
    rows = re.findall(r"^\| (\S+\.\S+) \| \d+ \| [\d,]+ \| \d+ \| (\d+) \|", done.stdout, re.M)
    return {name: int(peak) for name, peak in rows}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts the memory")
def test_eighty_megabytes_take_no_more_memory_than_forty() -> None:
    # JSON on one line: its first 32 MiB are looked at, to tell one object from JSON Lines.
    small, large = peaks(40), peaks(80)
    assert set(small) == set(FILES)
    for name, peak in large.items():
        assert peak < small[name] + 20, name
        assert peak < 250, name
