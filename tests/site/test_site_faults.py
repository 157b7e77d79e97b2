"""Every fault of a page ends the build with a line that names it, and the old site stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_site import small_repository

pytest.importorskip("zensical", reason="needs pip install zensical mkdocstrings-python")

from build_site import main


def built(root: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("sys.argv", ["build_site.py", str(root / "out"), "--root", str(root)])
    return main()


def test_a_site_without_a_fault_is_built_and_built_again(tmp_path, monkeypatch, capsys):
    root = small_repository(tmp_path)
    for _ in range(2):
        assert built(root, monkeypatch) == 0, capsys.readouterr().err
    assert capsys.readouterr().out.count(f"{root / 'out'}: 3 pages, ") == 2
    page = (root / "out" / "docs" / "python" / "index.html").read_text(encoding="utf-8")
    assert '<a href="../data/">data</a>' in page
    assert "or for a long one" in page.split("</table>")[0]
    assert "<p>And what printing raises.</p>" in page
    assert '<span class="gp">' in page
    code = (root / "out" / "src" / "palate" / "end.py" / "index.html").read_text(encoding="utf-8")
    assert "The end." in code


def test_a_reference_in_a_docstring_that_leads_nowhere_is_named(tmp_path, monkeypatch, capsys):
    root = small_repository(tmp_path)
    code = root / "src" / "palate" / "end.py"
    text = code.read_text(encoding="utf-8")
    code.write_text(text.replace("End with", "[End][palate.gone] with"), encoding="utf-8")
    assert built(root, monkeypatch) == 1
    assert capsys.readouterr().err == "docs/python.md: unresolved autoref: palate.gone\n"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[page](gone.md)", "docs/data.md:7: page does not exist: gone.md"),
        ("[file](gone.json)", "docs/data: dead link or image: ../gone.json"),
        ("[anchor](../README.md#gone)", "docs/data.md:7: anchor does not exist: ../README.md#gone"),
        ("![image](gone.png)", "docs/data: dead link or image: ../gone.png"),
        ("[end][palate.gone]", "docs/data.md:7: unresolved autoref: palate.gone"),
        ("::: palate.gone", "docs/data.md: no such object in the source: palate.gone"),
    ],
)
def test_a_planted_fault_is_named(tmp_path, monkeypatch, capsys, text, line):
    root = small_repository(tmp_path, data=f"\n{text}\n")
    (root / "out").mkdir()
    (root / "out" / ".palate-site").touch()
    assert built(root, monkeypatch) == 1
    assert capsys.readouterr().err.splitlines() == [line]
    assert [path.name for path in (root / "out").iterdir()] == [".palate-site"]


def test_a_folder_that_is_no_site_is_left_alone(tmp_path, monkeypatch, capsys):
    root = small_repository(tmp_path)
    (root / "out").mkdir()
    (root / "out" / "thesis.tex").touch()
    assert built(root, monkeypatch) == 1
    assert "exists and is no site of palate's" in capsys.readouterr().err
    assert (root / "out" / "thesis.tex").exists()


def test_a_page_and_a_menu_that_disagree_are_named(tmp_path, monkeypatch, capsys):
    root = small_repository(tmp_path)
    (root / "docs" / "new.md").write_text("# New\n", encoding="utf-8")
    (root / "docs" / "data.md").unlink()
    assert built(root, monkeypatch) == 1
    new, gone = capsys.readouterr().err.splitlines()
    assert new == "docs/new.md: not in the menu; add it to nav in tools/site/zensical.toml"
    assert gone.startswith("docs/data.md: in the menu")


def test_a_section_of_the_reference_that_is_no_public_name_is_named(tmp_path, monkeypatch, capsys):
    root = small_repository(tmp_path, python="\n### gone\n\nIt went.\n")
    assert built(root, monkeypatch) == 1
    assert capsys.readouterr().err.startswith("docs/python.md: no public name gone")


def test_a_stub_that_names_what_is_gone_is_named(tmp_path, monkeypatch, capsys):
    root = small_repository(tmp_path)
    (root / "src" / "palate" / "end.py").write_text("START = 1\n", encoding="utf-8")
    assert built(root, monkeypatch) == 1
    assert capsys.readouterr().err == "src/palate/__init__.pyi: palate.end has no end\n"
