"""The two tiers of tests, and shards for several machines.

Files named here carry the marker `full`; all others are quick: under 3 s of processor time a test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FULL = {
    "bench/test_bench_http.py": "endpoints",
    "execution/test_execution_memory.py": "memory of long runs",
    "execution/test_execution_ray.py": "Ray",
    "training": "training",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shard", default="1/1", metavar="K/N", help="the K-th of N parts, by file")


def pytest_configure(config: pytest.Config) -> None:
    if missing := [path for path in FULL if not (TESTS / path).exists()]:
        raise pytest.UsageError(f"{__file__}: no file or folder {missing}; correct FULL")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    files = sorted({item.path for item in items})
    part, parts = map(int, config.getoption("--shard").split("/"))
    chosen = set(files[part - 1 :: parts])
    config.hook.pytest_deselected(items=[item for item in items if item.path not in chosen])
    items[:] = [item for item in items if item.path in chosen]
    for item in items:
        if any(item.path.is_relative_to(TESTS / path) for path in FULL):
            item.add_marker("full")
