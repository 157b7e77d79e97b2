"""Answers of several studies in one file: r01 of each is somebody else."""

from __future__ import annotations

import json
from contextlib import closing
from itertools import zip_longest
from pathlib import Path

import pytest

from command_line import palate
from palate.errors import DataError
from palate.study import AnswerRow, Study
from palate.study.agreement import agreement
from palate.study.answers import read_answers
from palate.study.database import GivenAnswer
from palate.study.store import StudyStore
from study.planted_answers import answer, check, panel_of, written
from study.small_studies import RATINGS, small_item, small_study

PLANS = ("a" * 32, "b" * 32)


def export_of(plan: str | None, items: range, *, failing: bool) -> list[AnswerRow]:
    """Four raters of a study in the order of an export; the first fails its checks or nobody."""
    rows = []
    for rater in range(4):
        out = {"plan": plan, "excluded": failing and rater == 0}
        rows += [answer(rater, item, **out) for item in items]
        rows.append(check(rater, items[0], passed=not out["excluded"], **out))
    return rows


def test_raters_of_two_plans_are_told_apart(tmp_path: Path) -> None:
    # D20: r00 is excluded in the first study alone, and the other r00 counts.
    rows = [
        *export_of(PLANS[0], range(6), failing=True),
        *export_of(PLANS[1], range(6, 12), failing=False),
    ]
    for name, order in {
        "joined": rows,
        "sorted": sorted(rows, key=lambda row: row.rater),
        "mixed": [
            it for two in zip_longest(rows[: len(rows) // 2], rows[::-1]) for it in two if it
        ][: len(rows)],
    }.items():
        listed = list(dict.fromkeys(row.model_dump_json() for row in order))
        path = tmp_path / f"{name}.jsonl"
        path.write_text("".join(f"{line}\n" for line in listed), encoding="utf-8")
        summary = agreement(path, root=None).summary
        kept, everybody = summary.panels
        assert (summary.excluded, kept.raters, everybody.raters) == (1, 7, 8), name
        assert (kept.answers, everybody.answers) == (42, 48)
    assert {row.rater for row in read_answers(path)} >= {"r00@aaaaaaaa", "r00@bbbbbbbb"}


def test_one_plan_keeps_its_names_and_two_exports_of_it_are_refused(tmp_path: Path) -> None:
    rows = export_of(PLANS[0], range(6), failing=False)
    path = written(tmp_path / "one.jsonl", rows)
    assert read_answers(path) == rows
    with pytest.raises(Exception, match=r"r00 answers item \w+ 2 times"):
        agreement(written(tmp_path / "twice.jsonl", rows * 2), root=None)


@pytest.mark.parametrize("in_order", [True, False])
def test_older_files_of_two_studies_are_refused(tmp_path: Path, in_order: bool) -> None:
    first = export_of(None, range(6), failing=True)
    second = export_of(None, range(6, 12), failing=False)
    assert read_answers(written(tmp_path / "first.jsonl", first)) == first
    reason = "raters come back, to other items only"
    both = [*first, *second]
    if not in_order:  # the questionnaire tells
        ages = [{"age": age} for age in ("30", "40") for _ in first]
        both = [row.model_copy(update={"traits": age}) for row, age in zip(both, ages, strict=True)]
        both.sort(key=lambda row: (row.rater, row.item))
        reason = "has two sets of traits, so two people have this name"
    path = written(tmp_path / "both.jsonl", both)
    with pytest.raises(DataError, match=f"{reason}.*export each study anew"):
        agreement(path, root=None)
    printed = palate("agreement", "both.jsonl", cwd=tmp_path)
    assert printed.returncode == 2 and len(printed.stderr.splitlines()) == 1
    # Lines with a plan beside lines without: nobody knows whose the others are.
    named = export_of(PLANS[1], range(6, 12), failing=False)
    with pytest.raises(DataError, match=r"half.jsonl: `plan`: some lines have none"):
        read_answers(written(tmp_path / "half.jsonl", [*first, *named]))


def test_older_files_of_one_study_are_read_in_any_usual_order(tmp_path: Path) -> None:
    by_item = panel_of(4, 7, 0)  # checks by rater behind them
    by_rater = sorted(by_item, key=lambda row: row.rater)
    blocks = [answer(3 * (item % 2) + k, item) for item in range(8) for k in range(3)]
    in_turn = [answer(k, (item + k) % 6) for item in range(6) for k in range(3)]
    for name, rows in {"a": by_item, "b": by_rater, "c": blocks, "d": in_turn}.items():
        assert read_answers(written(tmp_path / f"{name}.jsonl", rows)) == rows, name


def test_exports_of_two_studies_stay_two(tmp_path: Path) -> None:
    studies = [small_study(tmp_path / "one")]
    items = {it.id: it for it in (small_item(n) for n in range(50, 54))}
    more = {"items": {name: it.hash for name, it in items.items()}, "gold": (), "checks": ()}
    lists = tuple(
        tuple(
            entry.model_copy(update={"item": name}) for entry, name in zip(of, items, strict=False)
        )
        for of in studies[0].plan.lists
    )
    plan = studies[0].plan.model_copy(update={**more, "lists": lists})
    studies.append(Study(tmp_path / "two", plan, items, ()))
    studies[1].write()
    for study in studies:
        with closing(StudyStore(study)) as store:
            for rater, entries in zip(store.issue_links(), study.plan.lists, strict=True):
                store.consent(rater)
                for k in range(len(entries)):
                    store.save(rater, k, GivenAnswer(choice="first", ratings=RATINGS))
    lines = []
    for name in ("one", "two"):
        palate("study", "export", name, "-o", f"{name}.jsonl", cwd=tmp_path)
        lines += (tmp_path / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    assert {json.loads(line)["plan"] for line in lines} == {study.plan.hash for study in studies}
    (tmp_path / "both.jsonl").write_text("\n".join(lines), encoding="utf-8")
    assert agreement(tmp_path / "both.jsonl", root=None).summary.panels[0].raters == 6
    # An answer to one plan is none to the other, though items may be the same.
    refused = palate("study", "import", "two", "one.jsonl", cwd=tmp_path)
    assert "one.jsonl:1: `plan`: an answer to another plan" in refused.stderr
