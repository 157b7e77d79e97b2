"""Tables that are kept beside a study are those of its figures, and stand on its page."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from studies.ppo import tables as ppo
from studies.selection_crisis import tables as selection_crisis


@pytest.mark.parametrize(("study", "on_page"), [(ppo, 1), (selection_crisis, 2)])
def test_tables_are_those_of_the_figures_beside_them(study, on_page, tmp_path, capsys, monkeypatch):
    folder = Path(study.__file__).parent
    shutil.copy(folder / "figures.json", tmp_path)
    monkeypatch.setattr(sys, "argv", ["tables.py", str(tmp_path)])
    study.main()
    printed = capsys.readouterr().out
    assert printed == (folder / "tables.md").read_text(encoding="utf-8")
    page = (folder / "README.md").read_text(encoding="utf-8")
    for table in printed.split("\n**")[:on_page]:
        assert table.strip("*\n") in page
