"""What all of the gauntlet reads."""

from __future__ import annotations

from functools import lru_cache

import pytest


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """Random models of every family, each made once in a session."""
    torch = pytest.importorskip("torch")
    from shelf import Shelf

    torch.set_num_threads(1)  # such small models only wait for a second one
    return Shelf(tmp_path_factory.mktemp("gauntlet"))


@pytest.fixture(scope="module")
def cells(shelf):
    """The cells of a family and a tokenizer; models are let go of when the next one is read."""
    from cells import Cells

    Cells(shelf, "Llama 3").outcome("reads")  # what is imported is no test's price
    return lru_cache(maxsize=1)(lambda name, kind=None: Cells(shelf, name, kind))
