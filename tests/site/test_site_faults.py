"""Every fault of a page ends the build with a line that names it, and the old site stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_site import ROOT, small_repository

from build_site import main  # isort: skip
from built_links import Page, check
from public_names import defined_in, public_names
from stage import menu_faults, stage

import palate


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
    assert menu_faults(["a.md"], [{"Start": ["a.md", {"Again": "a.md"}]}]) == [
        "a.md: twice in the menu of tools/site/zensical.toml"
    ]


def test_a_section_of_the_reference_that_is_no_public_name_is_named(tmp_path, monkeypatch, capsys):
    root = small_repository(tmp_path, python="\n### gone\n\nIt went.\n")
    assert built(root, monkeypatch) == 1
    assert capsys.readouterr().err.startswith("docs/python.md: no public name gone")


def test_the_menu_of_the_repository_names_every_page(tmp_path):
    assert stage(ROOT, tmp_path) >= 50


def test_every_public_name_is_found_where_it_is_defined():
    names = public_names(ROOT / "src")
    assert sorted(names) == palate.__all__
    for name, module in names.items():
        thing = getattr(palate, name)
        place = f"{thing.__module__}.{thing.__qualname__}"
        assert defined_in(ROOT / "src", module, name) == place


def test_what_is_loaded_from_another_server_is_named(tmp_path):
    (tmp_path / "index.html").write_text(
        '<img src="https://example.org/a.png"><a href="https://example.org/">far</a>'
        '<a href="#here">near</a><p id="here">[text][palate.gone] <code>a[0][b]</code></p>'
        '<link rel="canonical" href="https://example.org/"><script src="a.js"></script>',
        encoding="utf-8",
    )
    links, faults = check(tmp_path)
    assert links == 4
    assert faults == [
        ".: dead reference: [text][palate.gone]",
        ".: loaded from another server: https://example.org/a.png",
        ".: dead link or image: a.js",
    ]
    assert Page('<a name="old"></a>').anchors == {"old"}
