"""A study without ratings, and what its status says of its columns."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest
from page_studies import SCORES, WORDS, page_study, served

from command_line import palate
from palate.benchmarks import load_benchmark
from palate.errors import DataError, UsageError
from palate.study import Study, StudyPlan, read_study
from palate.study.agreement import agreement
from palate.study.database import GivenAnswer
from palate.study.planning import StudyOptions, plan_study
from palate.study.store import StudyStore
from study.small_studies import RATINGS, small_study


def unrated(study: Study, folder: Path) -> Study:
    plan = StudyPlan.model_validate({**study.plan.model_dump(), "rated": False})
    study = Study(folder, plan, study.items, study.gold)
    study.write()
    return read_study(folder)


def test_pages_of_a_study_without_ratings_ask_for_none(tmp_path: Path) -> None:
    study = unrated(page_study(tmp_path / "rated"), tmp_path / "study")
    with served(study) as pages:
        link = pages.links[0]
        pages.begin(link)
        html = pages.client.get(f"{link}/items/1").text
        assert WORDS["better_title"] in html and WORDS["ratings_title"] not in html
        for path in ("items/1", "practice/1"):
            assert "correctness" not in pages.client.get(f"{link}/{path}").text
        foreign = pages.client.post(f"{link}/items/1", data={"choice": "a", **SCORES})
        assert foreign.status_code == 422
        for n in range(1, 7):
            pages.post(f"{link}/items/{n}", {"choice": "a"})
        assert [dict(row.ratings) for row in pages.store.answers()] == [{}] * 6
    figures = agreement(study.folder, root=None).summary.panels[0].figures
    assert {figure.group for figure in figures} == {"choices"}


def test_ratings_go_with_the_plan(tmp_path: Path) -> None:
    rated = small_study(tmp_path / "rated")
    study = unrated(rated, tmp_path / "study")
    assert study.plan.hash != rated.plan.hash
    with closing(StudyStore(study)) as store:
        (rater, *_) = store.issue_links()
        store.consent(rater)
        with pytest.raises(DataError, match="expected none"):
            store.save(rater, 0, GivenAnswer(choice="first", ratings=RATINGS))
        store.save(rater, 0, GivenAnswer(choice="first"))


def test_a_plan_with_ratings_has_the_hash_that_it_always_had(tmp_path: Path) -> None:
    # Folders that were planned before the option are read, and not called changed.
    path = small_study(tmp_path / "study").folder / "plan.json"
    text = path.read_text(encoding="utf-8")
    older = "\n".join(line for line in text.splitlines() if '"rated"' not in line)
    assert older != text
    path.write_text(older, encoding="utf-8")
    assert read_study(path.parent).plan.rated


def test_plan_says_what_is_asked_and_the_refusal_names_what_needs_fewer_raters(
    tmp_path: Path,
) -> None:
    words = "study", "plan", "-b", "tasting", "-o", "study", "-c", "none", "--raters", "6"
    done = palate(*words, "--per-pair", "2", "--no-ratings", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "which is better " in done.stdout and "and ratings" not in done.stdout
    assert "power: none" in done.stdout
    assert not read_study(tmp_path / "study").plan.rated
    with pytest.raises(UsageError, match=r"--raters 6: expected 15 .*--per-pair .*\(-c none\)"):
        plan_study(load_benchmark("tasting"), StudyOptions(6), tmp_path / "other")
    collected = palate(*words[:6], "--collect", "--raters", "6", "--no-ratings", cwd=tmp_path)
    assert "an option of a study without --collect" in collected.stderr
