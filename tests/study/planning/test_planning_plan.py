"""What is planned of the bundled benchmark, and of rows that are unlike it."""

from __future__ import annotations

import errno
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from palate.benchmarks import Dataset, load_benchmark
from palate.errors import BenchmarkError, ResourceError, UsageError
from palate.study import read_study
from palate.study.planning import StudyOptions, plan_study
from palate.study.records import read_page_texts

TASTING = load_benchmark("tasting")


def rows(n: int = 3, **more: Any) -> list[dict[str, Any]]:
    return [
        {"id": f"r{k}", "user_id": f"u{k}", "question": f"{k}?", "chosen": f"{k} a",
         "rejected": f"{k} b", **more}
        for k in range(n)
    ]  # fmt: skip


def teas(n: int = 3, **more: Any) -> Dataset:
    return Dataset.from_rows("teas", rows(n, **more))


def test_tasting_makes_240_items_and_each_rater_gets_their_share_of_contexts() -> None:
    study = plan_study(TASTING, StudyOptions(raters=15), "study")
    context_of = {row.item: row.context for row in study.gold}
    assert Counter(context_of.values()) == {
        "none": 48, "profile:5": 96, "profile:5?of=stranger": 96,
    }  # fmt: skip
    shares = [
        Counter(context_of[entry.item] for entry in entries if entry.item in context_of)
        for entries in study.plan.lists
    ]
    for context, n in (("none", 9.6), ("profile:5", 19.2), ("profile:5?of=stranger", 19.2)):
        assert all(abs(share[context] - n) < 1.5 for share in shares)
    assert len(study.plan.checks) == 20
    assert {study.items[name].asks for name in study.plan.checks} == {"better"}
    for name in study.plan.checks:
        # The other question is of another category, so that nobody need be an expert.
        item = study.items[name]
        wrong = item.answers[item.expected == "first"]
        (strange,) = {row.category for row in TASTING.pairs if wrong in (row.chosen, row.rejected)}
        assert strange != item.category


def test_checks_hold_posts_where_every_item_does() -> None:
    options = StudyOptions(raters=6, contexts=("profile:2",))
    study = plan_study(TASTING, options, "study")
    checks = [study.items[name] for name in study.plan.checks]
    assert checks and all(check.asks == "prefers" and check.shown for check in checks)
    shown = {item.shown: item.users for item in study.items.values() if item.kind == "pair"}
    assert all({*shown[check.shown]} < {*check.users} for check in checks)


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    study = plan_study(teas(), StudyOptions(raters=3), tmp_path / "study")
    study.write()
    assert read_study(tmp_path / "study") == study
    assert study.plan.contexts == ("none",)
    with pytest.raises(UsageError, match="exists; a plan is made once"):
        study.write()


def test_a_full_disk_leaves_no_half_of_a_plan(tmp_path: Path, monkeypatch: Any) -> None:
    study = plan_study(teas(), StudyOptions(raters=3), tmp_path / "study")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(ResourceError, match="No space left"):
        patched.setattr("palate.study.records.write_json", full)
        study.write()
    assert [*tmp_path.iterdir()] == []
    study.write()
    assert read_study(study.folder) == study
    assert study.folder.stat().st_mode & 0o777 == 0o700


def test_texts_in_two_forms_are_one_pair() -> None:
    listed = [*rows(2), rows(1)[0] | {"id": "mirror", "user_id": "x", "question": "0? "}]
    study = plan_study(Dataset.from_rows("teas", listed), StudyOptions(6, checks=1), "study")
    first, other = (study.items[r.item] for r in study.gold if r.row in ("r0", "mirror"))
    assert first.id != other.id and first.pair == other.pair
    with pytest.raises(UsageError, match="expected 6 to 9"):
        plan_study(Dataset.from_rows("teas", listed), StudyOptions(5, checks=1), "study")


def test_a_row_is_asked_once_for_each_of_several_strangers() -> None:
    users = [
        row | {"user_id": f"u{k}", "profile": [{"id": str(k), "text": f"of u{k}"}]}
        for k, row in enumerate(rows(4))
    ]
    options = StudyOptions(6, per_pair=2, contexts=("stranger:1?draws=3",), checks=0)
    study = plan_study(Dataset.from_rows("teas", users), options, "study")
    assert len(study.items) == 12
    assert {row.row for row in study.gold if row.row.startswith("r0")} == {"r0", "r0#1", "r0#2"}
    for row in study.gold:
        item = study.items[row.item]
        assert len(item.users) == 2 and row.user in item.users


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (teas(), {"contexts": ("profile:5",)}, "teas has no profiles, so there is no context"),
        (teas(1), {}, "one question only, so no checks; --checks 0 asks without"),
        (TASTING, {"contexts": ("rubric",)}, "-c rubric: shows gold, which no page may hold"),
        (TASTING, {"contexts": ("stranger:5", "stranger:5?draws=2")}, "differ in draws alone"),
        (
            Dataset.from_rows("asks", [{"id": 1, "question": "Tea?", "responses": ["a", "b"]}]),
            {},
            "has no `chosen` and `rejected`; this needs pairs",
        ),
        (teas(2), {"checks": 99}, "--checks 99: only 8 can be made of these questions"),
        (teas(1, profile=[{"id": "1", "text": "x"}]), {"contexts": ("stranger:1",)}, "no row"),
    ],
    ids=["no posts", "one question", "gold", "draws", "no choice", "checks", "nothing shown"],
)
def test_what_cannot_be_planned(dataset: Dataset, options: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, BenchmarkError), match=message.replace("?", r"\?")) as refused:
        plan_study(dataset, StudyOptions(raters=15, **options) if dataset is TASTING else
                   StudyOptions(raters=3, **options), "study")  # fmt: skip
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [("per_pair", 0), ("checks", -1), ("most_failed_checks", -1), ("margin", 0), ("margin", 2.5)],
)
def test_numbers_out_of_bounds(option: str, value: float) -> None:
    flag = option.replace("_", "-")
    with pytest.raises(UsageError, match=f"--{flag} {value}: expected .* to"):
        StudyOptions(raters=3, **{option: value})  # type: ignore[arg-type]  # ints are counts


def test_one_question_can_be_asked_without_checks() -> None:
    study = plan_study(teas(1), StudyOptions(raters=3, checks=0), "study")
    assert study.plan.checks == () and [len(entries) for entries in study.plan.lists] == [1, 1, 1]


def test_palates_own_texts_are_whole() -> None:
    texts = read_page_texts()
    assert texts.traits and all(texts.texts.values())
    assert texts.consent.strip()


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("title = 3", "cannot be read"),
        ("[texts", "cannot be read"),
        ("[texts]\nsame = 3", "texts.same: input should be a valid string"),
        ("[texts]", "`texts.*` is missing"),
        ("[other]\n[texts]", "other: extra inputs are not permitted"),
        ("[texts]\n[[traits]]\nname = 'age'", "traits.0.question: field required"),
        (
            "[texts]\n[[traits]]\nname = 'age'\nquestion = 'How old?'\noptions = ['old']",
            "traits.0.options: tuple should have at least 2 items",
        ),
    ],
)
def test_texts_that_are_not_so(tmp_path: Path, toml: str, message: str) -> None:
    path = tmp_path / "texts.toml"
    path.write_text(toml)
    with pytest.raises(UsageError, match=message) as refused:
        read_page_texts(path)
    assert str(refused.value).startswith(f"--texts {path}: ") and "\n" not in str(refused.value)


def test_texts_of_a_team(tmp_path: Path) -> None:
    path, usual = tmp_path / "texts.toml", read_page_texts().texts
    words = "".join(f"{name} = {json.dumps(text)}\n" for name, text in usual.items())
    age = '[[traits]]\nname = "age"\nquestion = "How old?"\noptions = ["young", "old"]\n'
    path.write_text(f"[texts]\n{words}{age}")
    texts = read_page_texts(path)
    assert texts.texts == usual and texts.traits[0].options == ("young", "old")
    for toml, message in (
        (f"[texts]\n{words}{age}{age}", "two traits have one name"),
        (
            words.replace('_expected = "b"', '_expected = "c"'),
            "practice_1_expected`: expected a or b",
        ),
        (f"zzz = ''\n{words}", "`texts.zzz` is unknown"),
    ):
        path.write_text(toml if toml.startswith("[") else f"[texts]\n{toml}")
        with pytest.raises(UsageError, match=message):
            read_page_texts(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read"), (b"\xff", "cannot be read"), (b"\n", "empty")],
)
def test_consent_that_is_none(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "consent.md"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UsageError, match=f"--consent {path}: .*{message}"):
        read_page_texts(consent=path)
