"""Mirrored couples and the whole set of one file are two benchmarks of a page."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path

import pytest
from opened_page import page_of
from planted_runs import rows_of, save_run, write_rows

from palate.benchmarks import load_benchmark
from palate.comparison import evaluate
from palate.errors import ComparisonError
from palate.reports.page import report

pytest.importorskip("matplotlib")

CONTEXTS = ["none", "profile:3", "stranger:3"]


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    rows = rows_of(24, users=24, subsets=1)
    for k, row in enumerate(rows):
        row["question"] = f"Question {k // 2}?"
        if k % 2:
            row["chosen"], row["rejected"] = rows[k - 1]["rejected"], rows[k - 1]["chosen"]
    path: Path = tmp_path_factory.mktemp("dinner") / "dinner.jsonl"
    write_rows(path, rows)
    return path


@pytest.fixture(scope="module")
def runs(file) -> Path:
    root = file.parent / "runs"
    for mirrored in ("only", None):
        pairs = load_benchmark(str(file), mirrored=mirrored)
        evaluate(pairs, ["longest", "shortest"], CONTEXTS, root=root)
    return root


def test_each_has_its_tables(runs, file, tmp_path):
    html = page_of(runs, tmp_path, data=[str(file)], texts=True)
    for heading in ("dinner: 24 pairs", "dinner (mirrored couples): 12 mirrored couples"):
        assert html.count(f"<caption>{heading} of 24 users") == 1
    commands = re.findall(r"<code>(palate evaluate .*?)</code>", html)
    assert len(commands) == 2
    assert [("--mirrors only" in command) for command in commands] == [False, True]
    assert "One pair of answers, one couple of users in full" in html
    documents = [json.loads(base64.b64decode(each)) for each in re.findall('base64,([^"]+)', html)]
    assert [len(document["runs"]) for document in documents] == [6, 6]
    couples = [run["mirrored_accuracy"] is not None for d in documents for run in d["runs"]]
    assert couples == [False] * 6 + [True] * 6


def test_a_clash_names_what_differs(tmp_path):
    pairs = write_rows(tmp_path / "mine.jsonl", rows_of(12))
    first = save_run(tmp_path / "runs", pairs, "random", "none")
    assert first.folder is not None
    second = tmp_path / "runs" / "again"
    second.mkdir()
    for path in first.folder.iterdir():
        text = path.read_text(encoding="utf-8").replace('"seed": 0', '"revision": "v9", "seed": 1')
        (second / path.name).write_text(text.replace("0" * 64, "1" * 64), encoding="utf-8")
    with pytest.raises(ComparisonError, match=r"differ in .*; name one of them") as caught:
        report(tmp_path / "runs", tmp_path / "page.html")
    for words in ("rows", "seed (1, 0)", "revision (v9, none)", str(second)):
        assert words in str(caught.value)
