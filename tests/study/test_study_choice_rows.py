"""Rows of the contract that come of a collection: their splits, couples, and what is learnt."""

from __future__ import annotations

import json
import re
from collections import Counter

import numpy as np
import pytest
from collections_of_choices import answer_rows, collection, questions, sit_through
from hypothesis import given as cases
from hypothesis import settings
from hypothesis import strategies as st

from command_line import palate
from palate.benchmarks import Dataset, mirrors
from palate.data import choice_key, split_of
from palate.errors import RunError
from palate.session import Session
from palate.study import AnswerRow, Study
from palate.study.collecting import choose_next, contract_rows

HELLO = {"role": "assistant", "content": "Hello."}


def shorter(item) -> str:
    return "first" if len(item.answers[0]) < len(item.answers[1]) else "second"


def longer(item) -> str:
    return "second" if shorter(item) == "first" else "first"


def answered(study: Study, tastes: dict) -> list[AnswerRow]:
    chooser = choose_next(study, Session())
    return [
        row
        for rater, taste in tastes.items()
        for row in answer_rows(rater, sit_through(chooser, rater, study, taste), study)
    ]


def rows_of(study: Study, tastes: dict) -> list[dict]:
    return list(contract_rows(study, answered(study, tastes)))


@settings(max_examples=10, deadline=None)
@cases(draw=st.integers(0, 10**6), seed=st.integers(0, 99), share=st.sampled_from([0.2, 0.5]))
def test_no_question_is_in_both_splits_and_no_vote_is_lost(draw, seed, share):
    stream = np.random.default_rng(draw)
    study = collection(questions(110), seed=seed, test_share=share, again=0.2, per_rater=36)
    choices = ["first", "second", "same", "skip"]
    tastes = {f"r0{k}": lambda _: str(stream.choice(choices)) for k in (1, 2)}
    answers = answered(study, tastes)
    rows = list(contract_rows(study, answers))
    dataset = Dataset.from_rows("rows", json.loads(json.dumps(rows)))
    splits: dict[str, set] = {}
    for pair in dataset.pairs:
        splits.setdefault(pair.normal_key, set()).add(pair.split)
        assert pair.split == split_of(
            choice_key(pair.text, pair.turns), test_share=share, seed=seed
        )
    assert all(len(found) == 1 for found in splits.values())
    votes = Counter((pair.user_id, pair.normal_key) for pair in dataset.pairs)
    assert set(votes.values()) <= {1}, "what is asked again is no row"
    texts = {row.item: study.items[row.item].answers for row in answers}
    second = {
        f"{study.plan.hash[:8]}-{row.rater}-{row.item}": texts[row.item][row.choice == "second"]
        for row in answers
        if row.again and row.choice in ("first", "second")
    }
    for pair in dataset.pairs:
        assert pair.chosen_again == (None if pair.tie else second.get(pair.id))
        assert pair.alike == (pair.chosen_again and pair.chosen_again == pair.chosen)
    decided = [pair for pair in dataset.pairs if pair.split == "adapt" and not pair.tie]
    if decided:
        learnt = dataset.for_training()
        assert (len(learnt.pairs), learnt.history_left_out) == (len(decided), 0)


def test_a_row_says_what_was_chosen():
    turns = [{"role": "user", "content": "Hello."}, {"role": "user", "content": "I am thirsty."}]
    dataset = Dataset.from_rows("teas", [
        {"id": "a", "question": "Tea?", "category": "drinks", "turns": turns,
         "responses": ["Yes.", "Never.", "Perhaps."]}
    ])  # fmt: skip
    study = collection(dataset, per_rater=3, test_share=0, again=0)
    chooser = choose_next(study, Session())
    choices = iter(["second", "same", "skip"])
    asked = sit_through(chooser, "r02", study, lambda _: next(choices))
    answers = answer_rows("r02", asked, study, date="2026-11-27T10:00:00Z", traits={"age": "40"})
    first, tie = contract_rows(study, answers)
    item = study.items[asked[0][0].item]
    user = f"{study.plan.hash[:8]}-r02"
    assert first == {
        "id": f"{user}-{item.id}", "user_id": user,
        "question": "Hello.\n\nI am thirsty.\n\nTea?",
        "chosen": item.answers[1], "rejected": item.answers[0], "split": "adapt",
        "date": "2026-11-27T10:00:00Z", "category": "drinks", "traits": {"age": "40"},
        "responses": ["Never.", "Perhaps.", "Yes."],
    }  # fmt: skip
    assert tie["tie"] is True and {tie["chosen"], tie["rejected"]} <= set(first["responses"])


def test_turns_stay_turns_and_split_as_they_came():
    turns = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi!"}]
    rows = [
        {"id": f"q{k}", "question": f"Question {k}?", "turns": turns, "responses": ["A.", "Be."]}
        for k in range(40)
    ]
    dataset = Dataset.from_rows("talks", rows)
    study = collection(dataset, per_rater=20, test_share=0.3, again=0)
    for row in rows_of(study, {"r01": longer}):
        assert row["turns"] == turns
        (asked,) = [it for it in dataset.rows if it.text == row["question"]]
        key = choice_key(asked.text, asked.turns)
        assert row["split"] == split_of(key, test_share=0.3, seed=0)


def test_users_who_disagree_make_couples_on_which_length_is_blind(tmp_path):
    study = collection(questions(140), per_rater=40)
    stream = np.random.default_rng(0)
    tastes = {"r01": longer, "r02": shorter, "r03": longer, "r04": shorter}
    rows = rows_of(study, tastes)
    assert len(mirrors(Dataset.from_rows("rows", rows).select()).couples) == 2 * 12
    tastes = {f"r0{k}": lambda _: str(stream.choice(["first", "second"])) for k in range(1, 6)}
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows_of(study, tastes)))
    done = palate("evaluate", "-b", str(path), "--mirrors", "only", "-s", "longest", cwd=tmp_path)
    assert re.search(r"longest +0\.500$", done.stdout, re.MULTILINE), done.stdout


def test_answers_of_another_study_or_of_judges_are_no_rows():
    study = collection()
    asked = sit_through(choose_next(study, Session()), "r01", study, longer)
    answers = answer_rows("r01", asked, study)
    judged = study.plan.model_copy(update={"mode": "judge"})
    with pytest.raises(RunError, match="no collection"):
        next(contract_rows(Study(study.folder, judged, study.items, ()), answers))
    with pytest.raises(RunError, match=r"item .* of r01 is not planned"):
        next(contract_rows(collection(questions(80, turns=[HELLO])), answers))
    less = Study(study.folder, study.plan, {}, ())
    assert list(contract_rows(less, answers)) == [], "what was forgotten stays so"
