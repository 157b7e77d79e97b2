"""The folders that all of the gauntlet reads."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """Random models of every family, each made once in a session."""
    from shelf import Shelf

    torch.set_num_threads(1)  # such small models only wait for a second one
    return Shelf(tmp_path_factory.mktemp("gauntlet"))
