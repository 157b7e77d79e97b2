"""A build holds no more of a large source than of a small one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "own_text_memory.py"


def measured(megabytes: int) -> dict[str, int]:
    command = [sys.executable, str(SCRIPT), "--megabytes", str(megabytes)]
    untraced = {**os.environ, "COVERAGE_PROCESS_CONFIG": ""}  # tracing takes memory and time
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=untraced)
    result: dict[str, int] = json.loads(done.stdout)
    return result


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts the memory")
def test_twenty_megabytes_take_no_more_memory_than_five() -> None:
    small, large = measured(5), measured(20)
    assert large["megabytes"] >= 20
    assert large["test_rows"] > 3 * small["test_rows"] > 0
    assert large["peak_mib"] < small["peak_mib"] + 20
    assert large["peak_mib"] < 300
