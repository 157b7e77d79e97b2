"""The next question as a trained pref has it, within a collection."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from collections_of_choices import collection, given, questions, sit_through
from page_studies import ABOUT, TRAITS, served
from page_studies import WORDS as WORDS_OF_PAGES

from palate.benchmarks import Dataset
from palate.embeddings import plain_item
from palate.errors import ModelError, RunError, UsageError
from palate.learning import Choices, PersonalModel, next_question, train
from palate.records import Settings
from palate.session import Session
from palate.study.collecting import choose_next

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import study_active

WORDS = ("oak", "I", "you,", "why?", "now!", "12", "(so)", "long-winded", "NO", "and")


def responses(n: int) -> list[str]:
    stream = np.random.default_rng(n)
    return [" ".join(stream.choice(WORDS, 4 + 9 * k)) + f" {k}." for k in range(2)]


def asked_about(n: int) -> Dataset:
    return Dataset.from_rows("styles", [
        {"id": f"q{k}", "question": f"Question {k}?", "responses": responses(k)} for k in range(n)
    ])  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A pref and a Bradley–Terry model of users who like long or short answers."""
    there = tmp_path_factory.mktemp("models")
    rows = [
        {"id": f"{u}-{k}", "user_id": f"u{u}", "question": f"Old {k}?",
         "chosen": responses(200 + k)[(u + (k % 5 == 0)) % 2],
         "rejected": responses(200 + k)[(u + 1 + (k % 5 == 0)) % 2]}
        for u in range(12) for k in range(u, u + 10)
    ]  # fmt: skip
    for method in ("pref", "bradley-terry"):
        train(method, Dataset.from_rows("past", rows), there / method, embedders="style")
    return there


def test_test_pairs_come_in_the_same_order_with_and_without_a_model(folder):
    plain, active = (
        collection(asked_about(90), model=model, per_rater=36)
        for model in (None, str(folder / "pref"))
    )
    assert plain.plan.lists == active.plan.lists and plain.plan.items == active.plan.items
    tested = {entry.item for entry in plain.plan.lists[0]}
    sat = [
        sit_through(choose_next(study, Session()), "r01", study, lambda _: "first")
        for study in (plain, active)
    ]
    first, second = (
        [(k, e.item) for k, (e, _) in enumerate(asked) if e.item in tested and not e.again]
        for asked in sat
    )
    assert first == second and len(first) == 11
    others = [[e.item for e, _ in asked if e.item not in tested] for asked in sat]
    assert others[0] != others[1]


def test_the_next_pair_is_next_question_s_of_scaled_vectors_and_learnt_answers(folder):
    study = collection(
        asked_about(60), model=str(folder / "pref"), per_rater=30, again=0, test_share=0.4
    )
    chooser = choose_next(study, Session())
    choices = iter(["first", "second", "skip", "same", "second", "first"] * 5)
    asked = sit_through(chooser, "r01", study, lambda _: next(choices))
    tested = {entry.item for entry in study.plan.lists[0]}
    model = PersonalModel.load(folder / "pref")
    features = model.features(Session(), Settings())

    def vectors(item):
        texts = [plain_item(item.question, text) for text in item.answers]
        return model.scaling.apply(features.table(texts))

    checked = 0
    for place, (entry, _) in enumerate(asked):
        before = [(e.item, g.choice) for e, g in asked[:place] if e.item not in tested]
        taught = [(item, c) for item, c in before if c in ("first", "second")]
        if entry.item in tested or not taught:
            continue
        left = sorted(study.items.keys() - tested - {item for item, _ in before})
        table = np.concatenate([vectors(study.items[item]) for item, _ in taught])
        second = np.array([c == "second" for _, c in taught], int)
        rows = 2 * np.arange(len(taught))
        answered = Choices(table, 0 * rows, rows + second, rows + 1 - second, 1)
        pairs = np.stack([vectors(study.items[item]) for item in left])
        assert left[int(next_question(model.model, answered, pairs)[0])] == entry.item
        checked += 1
    assert checked > 10


def test_pages_ask_what_the_model_chooses(folder, tmp_path):
    options = {"model": str(folder / "pref"), "per_rater": 9, "again": 0, "texts": WORDS_OF_PAGES}
    options |= {"traits": TRAITS, "consent": "Yes?"}
    study = collection(asked_about(60), tmp_path / "study", **options)
    study.write()
    chooser = choose_next(study, Session())
    with served(study, choose=chooser) as pages:
        link, expected = pages.links[0], sit_through(chooser, "r01", study, lambda _: "first")
        pages.post(f"{link}/consent")
        pages.post(f"{link}/about", ABOUT)
        for n, (entry, _) in enumerate(expected, 1):
            html = pages.client.get(f"{link}/items/{n}").text
            item = study.items[entry.item]
            first, second = item.answers[:: -1 if entry.swapped else 1]
            assert item.question[0].content in html and html.index(first) < html.index(second)
            pages.post(f"{link}/items/{n}", {"choice": "b" if entry.swapped else "a"})
        assert pages.client.get(link).headers["Location"] == f"{link}/end"
        assert [row.choice for row in pages.store.answers()] == ["first"] * 9


def test_skips_and_test_answers_teach_nothing(folder):
    study = collection(asked_about(60), model=str(folder / "pref"), per_rater=30, again=0)
    chooser = choose_next(study, Session())
    asked = sit_through(chooser, "r01", study, lambda _: "first")
    tested = {entry.item for entry in study.plan.lists[0]}
    turned = [(e, given("second") if e.item in tested else answered) for e, answered in asked[:20]]
    assert chooser("r01", turned) == chooser("r01", asked[:20])
    skipped = [(e, given("skip")) for e, _ in asked[:20]]
    plain = collection(asked_about(60), per_rater=30, again=0)
    assert chooser("r01", skipped) == choose_next(plain, Session())("r01", skipped), "by chance"


def test_a_model_that_is_no_pref_or_was_changed_is_one_line(folder, tmp_path):
    with pytest.raises(UsageError, match=r"a bradley-terry cannot choose; train a pref"):
        collection(model=str(folder / "bradley-terry"))
    mine = tmp_path / "mine"
    shutil.copytree(folder / "pref", mine)
    study = collection(model=str(mine))
    choose_next(study, Session())
    facts = json.loads((mine / "palate.json").read_text())
    (mine / "palate.json").write_text(json.dumps({**facts, "meaning": "another"}))
    with pytest.raises(RunError, match="changed since the study was planned"):
        choose_next(study, Session())
    shutil.rmtree(mine)
    with pytest.raises(ModelError, match="no personal reward model") as error:
        choose_next(study, Session())
    assert "\n" not in str(error.value)


def test_a_question_too_long_for_the_embedder_is_left_to_chance(folder, monkeypatch):
    from palate.embeddings import Features

    study = collection(asked_about(60), model=str(folder / "pref"), per_rater=30, again=0)
    usual = Features.table

    def without(self, items, progress=None):
        table = usual(self, items, progress)
        table[:] = np.nan
        return table

    monkeypatch.setattr(Features, "table", without)
    asked = sit_through(choose_next(study, Session()), "r01", study, lambda _: "first")
    assert len(asked) == 30


def test_a_choice_among_many_pairs_takes_no_time(folder):
    from time import process_time

    study = collection(questions(300), model=str(folder / "pref"), per_rater=30, again=0)
    chooser = choose_next(study, Session())
    asked = sit_through(chooser, "r01", study, lambda _: "first")
    start = process_time()
    for _ in range(20):
        chooser("r01", asked[:29])
    assert (process_time() - start) / 20 < 0.1


def test_the_tool_prints_what_a_model_s_pairs_gain(monkeypatch, capsys):
    sizes = {"QUESTIONS": 60, "HELD_OUT": 20, "OTHERS": 24, "CHOICES_EACH": 12}
    for name, size in sizes.items():
        monkeypatch.setattr(study_active, name, size)
    monkeypatch.setattr(
        sys, "argv", ["study_active.py", "--users", "5", "--seeds", "1", "--answers", "4"]
    )
    code = study_active.main()
    lines = [line.split("|")[1:-1] for line in capsys.readouterr().out.splitlines()[4:]]
    shares = np.array([[float(cell) for cell in line[1:4]] for line in lines[:1]])
    assert ((shares > 0.3) & (shares < 1)).all()
    assert (shares[:, 2] >= shares[:, :2].max(axis=1)).all(), "nobody is better than the truth"
    low = float(lines[1][4].split("[")[1].split(",")[0])
    assert code == (low <= 0)
