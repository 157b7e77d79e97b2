"""The menu has every page and the reference every name, without a site being built."""

from __future__ import annotations

import pytest
from built_links import Page, check
from public_names import defined_in, public_names
from small_site import ROOT
from stage import menu_faults, stage

import palate


def test_the_menu_of_the_repository_names_every_page(tmp_path):
    assert stage(ROOT, tmp_path) >= 50


def test_a_page_stands_once_in_the_menu():
    assert menu_faults(["a.md"], [{"Start": ["a.md", {"Again": "a.md"}]}]) == [
        "a.md: twice in the menu of tools/site/zensical.toml"
    ]


def test_a_name_is_followed_to_the_file_that_defines_it():
    names = public_names(ROOT / "src")
    assert sorted(names) == palate.__all__
    assert defined_in(ROOT / "src", names["evaluate"], "evaluate").endswith(".evaluate.evaluate")
    with pytest.raises(LookupError, match="has no nothing"):
        defined_in(ROOT / "src", names["evaluate"], "nothing")


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
