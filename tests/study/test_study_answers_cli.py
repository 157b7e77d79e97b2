"""The commands around answers: status, close, forget, export and import."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from command_line import palate
from palate.records import user_key
from palate.study import AnswerRow, Study
from palate.study.answers import read_answers
from palate.study.database import GivenAnswer
from palate.study.store import StudyStore, close_raters
from study.small_studies import RATINGS, seated, small_study

GOLD = ("gold", "chosen", "expected", "kind", "check", "context", "row")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[StudyStore]:
    """Two raters answered four pairs and two checks; one of them failed both checks."""
    study = small_study(tmp_path / "study", users=(user_key("ana"), user_key("r02")))
    with closing(StudyStore(study)) as store:
        for arrival, choice in {"ana's phone": "first", "b": "same"}.items():
            rater = seated(store, arrival)
            store.set_traits(rater, {"tea": "yes" if choice == "first" else "no"})
            for k in range(6):
                given = {"choice": choice, "ratings": RATINGS, "seconds": k}
                store.save(rater, k, GivenAnswer.model_validate(given))
        yield store


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_status_tells_progress_time_sides_checks_and_groups(store: StudyStore) -> None:
    cwd = store.study.folder.parent
    printed = palate("study", "status", "study", "--format", "json", cwd=cwd)
    assert printed.returncode == 0, printed.stderr
    document = json.loads(printed.stdout)
    first, second = document["raters"]
    counts = {"answered": 6, "total": 6, "sides": 6, "failed": 0, "checks": 2}
    # The first answers stand left and right in turn.
    assert first == {"rater": "r01", "state": "finished", "seconds": 2.5, "left": 0.5} | counts
    assert (second["state"], second["failed"]) == ("finished, excluded", 2)
    assert (second["left"], second["sides"]) == (None, 0)
    groups = {(row["category"], row["trait"]): row for row in document["groups"]}
    assert groups["topic 0", ""] == {
        **{"category": "topic 0", "trait": "", "answered": 4, "same": 2, "skip": 0}
    }
    assert groups["topic 1", "tea: yes"]["same"] == 0
    assert len(groups) == 6
    table = palate("study", "status", "study", cwd=cwd).stdout
    assert "study: 12 answers; 2 of 3 raters finished" in table
    assert "finished, excluded" in table
    assert "left: share of choices for the left answer, of sides choices." in table


def test_an_export_comes_back_as_the_same_answers(store: StudyStore, tmp_path: Path) -> None:
    printed = palate("study", "export", "study", cwd=tmp_path)
    assert printed.stdout == "study/exports/answers.jsonl: 12 lines\n"
    path = tmp_path / "study" / "exports" / "answers.jsonl"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    rows = read_answers(path)
    assert rows == store.answers()
    assert all(isinstance(row, AnswerRow) for row in rows)
    other = Study(tmp_path / "other", store.study.plan, store.study.items, store.study.gold)
    other.write()
    for _ in range(2):  # the same file again changes nothing
        assert palate("study", "import", "other", str(path), cwd=tmp_path).returncode == 0
        assert read_answers(other.folder) == rows
    palate("study", "export", "other", "-o", "again.jsonl", cwd=tmp_path)
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()
    before = path.read_bytes()
    refused = palate("study", "export", "study", "-o", str(path), cwd=tmp_path)
    assert refused.returncode == 2
    assert "not there yet" in refused.stderr
    assert path.read_bytes() == before


def test_an_export_with_a_place_that_was_taken_over_comes_back(
    store: StudyStore, tmp_path: Path
) -> None:
    study = store.study
    close_raters(store.database, "r02")
    store.arrive("c")
    token = store.arrive("d")  # nothing is open of a place, so none is given
    assert token is None
    store.delete("r02")
    assert seated(store, "d") == "r04"
    for k in (0, 1):
        store.save("r04", k, GivenAnswer(choice="skip"))
    palate("study", "export", "study", "-o", "answers.jsonl", cwd=tmp_path)
    Study(tmp_path / "other", study.plan, study.items, study.gold).write()
    printed = palate("study", "import", "other", "answers.jsonl", cwd=tmp_path)
    assert printed.stdout == "imported: 8 answers\n", printed.stderr
    assert read_answers(tmp_path / "other") == store.answers()
    assert {row.rater for row in store.answers()} == {"r01", "r04"}


def test_a_collections_export_comes_back(tmp_path: Path) -> None:
    more: dict[str, Any] = {"mode": "collect", "per_rater": 2, "checks": 0, "shown": True}
    study, other = (small_study(tmp_path / name, **more) for name in ("study", "other"))
    entries = [entry.model_copy(update={"swapped": True}) for entry in study.plan.lists[0]]
    entries[1] = entries[0].model_copy(update={"again": True, "swapped": False})
    with closing(StudyStore(study, choose=lambda _, asked: entries[len(asked)])) as store:
        seated(store, "a")
        for k, choice in enumerate(("first", "second")):
            store.save("r01", k, GivenAnswer.model_validate({"choice": choice}))
        palate("study", "export", "study", cwd=tmp_path)
        path = "study/exports/answers.jsonl"
        assert palate("study", "import", "other", path, cwd=tmp_path).returncode == 0
        assert read_answers(other) == store.answers()
        assert [(row.left, row.again) for row in read_answers(other)] == [
            ("second", False),
            ("first", True),
        ]


def test_lists_for_other_tools_hold_no_gold_and_take_sides_back(
    store: StudyStore, tmp_path: Path
) -> None:
    palate("study", "export", "study", "--items", "-o", "lists.jsonl", cwd=tmp_path)
    lists = lines_of(tmp_path / "lists.jsonl")
    assert len(lists) == 3 * 6
    assert list(dict.fromkeys(line["rater"] for line in lists)) == ["r01", "r02", "r03"]
    for line in lists:
        assert not set(line) & set(GOLD)
        item = store.study.items[line["item"]]
        assert {line["left"], line["right"]} == set(item.answers)
        assert line["question"][0]["content"] == item.question[0].content
    answers = [
        {
            **{key: line[key] for key in ("rater", "position", "item", "left", "right")},
            "choice": "left",
            "ratings": {name: {"left": 5, "right": 2} for name in RATINGS},
        }
        for line in lists
        if line["rater"] == "r03"
    ]
    (tmp_path / "tool.jsonl").write_text("".join(json.dumps(line) + "\n" for line in answers))
    printed = palate("study", "import", "study", "tool.jsonl", cwd=tmp_path)
    assert printed.stdout == "imported: 6 answers\n", printed.stderr
    rows = [row for row in store.answers() if row.rater == "r03"]
    assert [row.choice for row in rows] == [row.left for row in rows]
    assert {row.left for row in rows} == {"first", "second"}
    for row in rows:
        assert set(row.ratings.values()) == {(5, 2) if row.left == "first" else (2, 5)}


BAD = {
    "no rater of the plan": {"rater": "r04"},
    "`rater`: field required": {"rater": None},
    "no item of the plan": {"item": "0" * 16},
    "`choice`: r01 answered": {"rater": "r01"},
    "answered in line 1 already": {},
    "choice: input should be": {"choice": "left or right"},
    "`ratings`: expected correctness": {"ratings": {}},
    "ratings.correctness": {"ratings": {**RATINGS, "correctness": [0, 6]}},
    "`date`: '9/30/2017' is no date": {"date": "9/30/2017"},
    "seconds: input should be": {"seconds": -1},
    "rating: extra inputs": {"rating": 3},
    "`traits`: tea = 'maybe'": {"traits": {"tea": "maybe"}},
}


@pytest.mark.parametrize("problem", BAD)
def test_a_bad_line_is_named_and_nothing_is_taken(
    problem: str, store: StudyStore, tmp_path: Path
) -> None:
    items = [entry.item for entry in store.study.plan.lists[2]]
    good = {"rater": "r03", "item": items[0], "choice": "same", "ratings": RATINGS}
    second = good if not BAD[problem] else {**good, "item": items[1], **BAD[problem]}
    second = {name: value for name, value in second.items() if value is not None}
    if second.get("rater") == "r01":
        second = {**second, "item": items[0]}
    text = f"{json.dumps(good)}\n{json.dumps(second)}\n"
    (tmp_path / "bad.jsonl").write_text(text, encoding="utf-8")
    printed = palate("study", "import", "study", "bad.jsonl", cwd=tmp_path)
    assert printed.returncode == 2
    assert printed.stderr.count("\n") == 1
    assert "bad.jsonl:2: " in printed.stderr
    assert problem.replace("`rater`: field", "rater: field") in printed.stderr
    assert {row.rater for row in store.answers()} == {"r01", "r02"}


def test_items_outside_a_list_and_files_that_are_no_json(store: StudyStore, tmp_path: Path) -> None:
    study = store.study
    short = study.plan.model_copy(update={"lists": (study.plan.lists[0][:2],) * 3})
    Study(tmp_path / "short", short, study.items, study.gold).write()
    line = {"rater": "r01", "item": short.checks[0], "choice": "skip"}
    for text, problem in (
        (json.dumps(line), f"bad.jsonl:1: `item`: {short.checks[0]} is not in the list of r01"),
        ("{", "bad.jsonl:1: not JSON"),
        ("[]", "bad.jsonl:1: "),
    ):
        (tmp_path / "bad.jsonl").write_text(text, encoding="utf-8")
        printed = palate("study", "import", "short", "bad.jsonl", cwd=tmp_path)
        assert printed.returncode == 2
        assert problem in printed.stderr


def test_close_and_forget_by_name_arrival_and_user(store: StudyStore, tmp_path: Path) -> None:
    def said(*words: str) -> str:
        printed = palate("study", *words, cwd=tmp_path)
        assert printed.returncode == (2 if printed.stderr else 0)
        return (printed.stdout or printed.stderr).strip()

    assert said("close", "study", "ana's phone") == "closed: r01"
    assert "nobody arrived" in said("close", "study", "somebody")
    assert "closed" in said("status", "study")
    assert "say --rater or --user" in said("forget", "study", "r02")
    assert said("forget", "study", "r02", "--user").startswith("forgotten: user r02, 2 items")
    assert said("forget", "study", "r02") == "forgotten: rater r02"
    assert said("forget", "study", "ana's phone") == "forgotten: rater r01"
    assert "no such rater" in said("forget", "study", "ana's phone")
    assert said("forget", "study", "ana").startswith("forgotten: user ana, 2 items")
    assert "no such rater" in said("forget", "study", "ana")
    assert "no such rater" in said("forget", "study", "ana", "--rater")
    assert said("close", "study") == "closed: all raters"
    assert store.answers() == []
    assert len(store.study.items) == 4
    assert store.arrive("c") is None
    assert "choose one of them" in said("export", "study", "--items", "--rows")
    assert "no study" in said("status", "nowhere")


def test_who_was_forgotten_does_not_come_back_by_an_old_export(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", mode="collect", per_rater=2, checks=0, shown=True)
    entries = study.plan.lists[0]
    with closing(StudyStore(study, choose=lambda _, asked: entries[len(asked)])) as store:
        store.save(seated(store, "a"), 0, GivenAnswer(choice="first"))
        palate("study", "export", "study", "-o", "old.jsonl", cwd=tmp_path)
        store.delete("r01")
        printed = palate("study", "import", "study", "old.jsonl", cwd=tmp_path)
        assert (printed.returncode, store.answers()) == (2, [])
        assert "is not in the list of r01" in printed.stderr
