"""The loopback measurement does what it says; how fast is for the command to print."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bench_http as tool
from bench_http import SPECS, bench_http


@pytest.mark.parametrize("scorer", SPECS)
def test_every_response_is_one_request_and_none_is_faster_than_the_latency(scorer):
    found = bench_http(scorer, responses=40, latency=0.02, concurrency=4)
    assert (found.scorer, found.requests, found.ideal) == (scorer, 40, 200.0)
    assert found.seconds >= 10 * 0.02, "ten waves of four"
    assert 0 < found.share <= 1


def test_the_command_prints_a_line_for_each_scorer():
    command = [sys.executable, tool.__file__, "--turns", "1", "--responses", "20"]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60, check=True)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(SPECS)
    assert all(" of 1,280/s; " in line for line in lines)
