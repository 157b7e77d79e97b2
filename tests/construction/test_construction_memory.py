"""A source and a build hold little more of a large file than of a small one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="Linux counts the memory"
)


def measured(tool: str, megabytes: int, *more: str) -> dict[str, int]:
    command = [sys.executable, str(TOOLS / tool), "--megabytes", str(megabytes), *more]
    untraced = {**os.environ, "COVERAGE_PROCESS_CONFIG": ""}  # tracing takes memory and time
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=untraced)
    result: dict[str, int] = json.loads(done.stdout)
    assert result["megabytes"] >= megabytes and result["peak_mib"] < 300
    return result


def test_twenty_megabytes_take_no_more_memory_than_five() -> None:
    small, large = (measured("own_text_memory.py", size) for size in (5, 20))
    assert large["test_rows"] > 3 * small["test_rows"] > 0
    assert large["peak_mib"] < small["peak_mib"] + 20


def test_forty_megabytes_take_little_more_memory_than_ten() -> None:
    small, large = (measured("dump_memory.py", size, "--questions", "500") for size in (10, 40))
    assert large["questions"] == small["questions"] == large["partners"] == 500
    assert large["profile_posts"] > 500
    assert large["peak_mib"] < small["peak_mib"] + 25
