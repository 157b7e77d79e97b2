"""Planted raters through the pages, on `tasting`: what they know comes out of the evaluation."""

from __future__ import annotations

import html
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from page_studies import SCORES, Served, served

from command_line import palate
from palate.benchmarks import load_benchmark
from palate.study import Study, StudyItem
from palate.study.planning import StudyOptions, plan_study

CONTEXTS = ("none", "profile:5", "stranger:5")
KNOWS = 0.8
ANSWERS = 96 * 3
Rater = Callable[[StudyItem], str]


def sides_of(item: StudyItem, page: str) -> dict[str, str]:
    """Return which answer of the item stands where, as the page tells it."""
    a, b = (
        html.unescape(re.sub(r"<[^>]+>", "", text)).split()
        for text in re.findall(r'<div class="text" dir="auto">(.*?)</div>', page, re.DOTALL)[-2:]
    )
    left = a[:12] == item.answers[0].replace("*", "").split()[:12]
    assert left != (b[:12] == item.answers[0].replace("*", "").split()[:12])
    return {"first": "a" if left else "b", "second": "b" if left else "a"}


def answer_all(pages: Served, choose: Rater) -> None:
    """Let every rater answer every page."""
    for rater, link in zip(pages.tokens, pages.links, strict=True):
        pages.begin(link)
        place, n = f"{link}/items/1", 1
        while place != f"{link}/end":
            asked = pages.store.entry(rater, n - 1)
            assert asked is not None and asked.item is not None
            page = pages.client.get(place).text
            sides = sides_of(asked.item, page)
            form = {"choice": sides[choose(asked.item)], "since": "1"}
            form |= SCORES if 'name="correctness_a"' in page else {}
            place, n = pages.post(place, form), n + 1


def evaluated(folder: Path, make: Callable[[Study], Rater]) -> dict[str, Any]:
    """Return the evaluation of raters who choose so."""
    study = plan_study(
        load_benchmark("tasting"), StudyOptions(15, contexts=CONTEXTS), folder / "study"
    )
    study.write()
    with served(study) as pages:
        answer_all(pages, make(study))
    words = ["-b", "tasting", "-s", f"people:{study.folder}"]
    words += [word for name in CONTEXTS for word in ("-c", name)]
    done = palate("evaluate", *words, "--format", "json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return {**json.loads(done.stdout), "words": words}


def test_who_knows_four_in_five_is_measured_so(tmp_path):
    def knowing(study: Study) -> Rater:
        draws = random.Random(0)
        gold = {row.item: row.chosen for row in study.gold if row.context == "profile:5"}
        other = {"first": "second", "second": "first"}

        def choose(item: StudyItem) -> str:
            if item.expected:
                return item.expected
            if item.id not in gold:
                return draws.choice(("first", "second"))
            return gold[item.id] if draws.random() < KNOWS else other[gold[item.id]]

        return choose

    document = evaluated(tmp_path, knowing)
    (run,) = (run for run in document["runs"] if run["context"] == "profile:5")
    error = 2.576 * (KNOWS * (1 - KNOWS) / ANSWERS) ** 0.5
    assert abs(run["accuracy"]["value"] - KNOWS) < error
    (gain,) = (gain for gain in document["gains"] if gain["kind"] == "identity")
    assert gain["low"] > 0 and gain["p_holm"] < 0.05
    table = palate("evaluate", *document["words"], cwd=tmp_path).stdout
    assert re.search(r"people +profile:5 .* yes\n", table), table
