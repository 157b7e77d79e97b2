"""What a row costs in memory, beyond the pair itself, which is the user's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "million.py"
BYTES_A_ROW = 850
"""Columns of plan, results and verdicts, and what statistics make of them for a moment.

480 to 751 are measured: the allocator's pages move it. 24 of them, held twice for that moment, name
a row's question and responses, and the numbering of users and questions takes as much again.
"""


def measured(rows: int, *flags: str) -> dict[str, float]:
    # Hardly a slate is kept from planning, so that few rows take what a row of a million takes.
    command = [sys.executable, str(SCRIPT), "--rows", str(rows), "--slates-mib", "1", "--sum"]
    untraced = {**os.environ, "COVERAGE_PROCESS_CONFIG": ""}  # tracing takes memory and time
    done = subprocess.run(
        [*command, *flags], capture_output=True, text=True, check=True, env=untraced
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux counts the memory")
@pytest.mark.parametrize("flags", [(), ("--judge",)])
def test_a_row_costs_a_few_hundred_bytes_at_the_peak_and_none_while_running(flags):
    small, large = measured(20_000, *flags), measured(40_000, *flags)
    for turn in ("first", "again"):
        more = (large[f"{turn}_peak_mib"] - small[f"{turn}_peak_mib"]) * 2**20
        assert more / 20_000 < BYTES_A_ROW, turn
        growth = f"{turn}_growth_while_running_mib"
        assert large[growth] < small[growth] + 2, turn
