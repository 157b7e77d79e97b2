"""What all tests share."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import find, settings
from hypothesis import strategies as st

from command_line import Palate
from command_line import palate as typed

ROOT = Path(__file__).resolve().parent.parent

# The machines that run the tests are shared: how long an example takes says nothing.
# What is found by a hundred examples is looked for every week: `make test EXAMPLES=thorough`.
settings.register_profile("quick", deadline=None, max_examples=25)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("quick")


def pytest_collection_finish() -> None:
    """Leave what was imported out of all that the garbage collector looks through."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def unicode_tables():
    """Make Hypothesis's tables of Unicode, which take seconds in a fresh clone: no test's time."""
    find(st.text(), bool)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory):
    """Tiny random models by architecture, each built once in a session."""
    tiny_models = pytest.importorskip("tiny")
    return tiny_models.Tiny(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what is computed in a folder of the test's own."""
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def palate(tmp_path: Path) -> Palate:
    """Run a command in the test's folder: its code, what it printed, its errors on one line."""

    def run(*words: object) -> tuple[int, str, str]:
        done = typed(*words, cwd=tmp_path, COLUMNS="400")
        return done.returncode, done.stdout, " ".join(done.stderr.split())

    return run


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Return the folder of real preference data: $PALATE_DATA, or ../shared/data."""
    named = os.environ.get("PALATE_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not (folder / "convincing_arguments.jsonl.gz").is_file():
        pytest.skip(f"no real preference data in {folder}; set PALATE_DATA to a folder of it")
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A Chromium for tests of pages."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs pip install playwright")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("needs Debian's package chromium")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()
