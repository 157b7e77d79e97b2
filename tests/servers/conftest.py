"""Tests of real servers are skipped, with the reason, where none is set up."""

from __future__ import annotations

from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    from vllm_process import MISSING, VLLM  # lies beside this file

    if not VLLM.exists():
        for item in items:
            if item.path.is_relative_to(HERE):
                item.add_marker(pytest.mark.skip(reason=MISSING))
