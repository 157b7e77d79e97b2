"""A source holds little more of a large dump than of a small one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "dump_memory.py"


def measured(megabytes: int) -> dict[str, int]:
    command = [sys.executable, str(SCRIPT), "--megabytes", str(megabytes), "--questions", "500"]
    untraced = {**os.environ, "COVERAGE_PROCESS_CONFIG": ""}  # tracing takes memory and time
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=untraced)
    result: dict[str, int] = json.loads(done.stdout)
    return result


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts the memory")
def test_forty_megabytes_take_little_more_memory_than_ten() -> None:
    small, large = measured(10), measured(40)
    assert large["megabytes"] >= 40
    assert large["questions"] == small["questions"] == large["partners"] == 500
    assert large["profile_posts"] > 500
    assert large["peak_mib"] < small["peak_mib"] + 25
    assert large["peak_mib"] < 300
