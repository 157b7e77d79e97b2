"""A collection from its plan through the store to rows and retest agreement."""

from __future__ import annotations

from contextlib import closing
from math import sqrt

import pytest
from collections_of_choices import collection, questions

from command_line import palate
from palate.benchmarks import Dataset, mirrors
from palate.comparison import evaluate
from palate.construction import audit
from palate.session import Session
from palate.study import StudyItem, Trait, read_study
from palate.study.agreement import retest_report
from palate.study.collecting import choose_next, contract_rows
from palate.study.database import GivenAnswer
from palate.study.store import StudyStore

AGE = Trait(name="age", question="How old are you?", options=("40", "50"))


def fickle(item: StudyItem, number: int, again: bool) -> GivenAnswer:
    """Half like it long; asked again, the fourth of four changes, and the third sees nothing."""
    if again and number % 4 == 2:
        return GivenAnswer(choice="same")
    return choice(item, (number % 2 == 0) != (again and number % 4 == 3), again=False)


def test_an_audit_of_a_finished_study_bounds_what_knowing_the_user_is_worth(tmp_path):
    study = collection(
        questions(90), folder=tmp_path / "study", raters=24, test_share=0.5, again=0.15
    )
    study.write()
    with closing(StudyStore(study, choose=choose_next(study, Session()))) as store:
        for number, (rater, token) in enumerate(sorted(store.issue_links().items())):
            store.consent(rater)
            while not (state := store.rater(token)).finished:
                asked = store.entry(rater, state.next_position)
                given = fickle(asked.item, number, asked.entry.again)
                store.save(rater, state.next_position, given)
        answers = store.answers()
    palate("study", "export", "study", "--rows", "-o", "rows.jsonl", cwd=tmp_path)
    file = tmp_path / "rows.jsonl"
    told = audit(file, root=None).summary.ceilings
    # By hand: repeats of test pairs in which both answers name a side.
    tested = {entry.item for entry in study.plan.lists[0]}
    first = {(row.rater, row.item): row.choice for row in answers if not row.again}
    pairs = [
        (first[row.rater, row.item], row.choice)
        for row in answers
        if row.again and row.item in tested and row.choice != "same"
    ]
    alike = sum(before == after for before, after in pairs) / len(pairs)
    assert told.n_repeats == len(pairs) and 0.6 < alike < 0.75
    assert told.n_votes == 24 * 15 + len(pairs) and told.n_pairs == 15
    # The bounds of one repeat lie within what chance adds to them.
    low, high = alike, (1 + sqrt(2 * alike - 1)) / 2
    assert told.personal[0] <= low < high <= told.personal[1]
    assert told.taste[0] >= 0 and told.taste[1] == pytest.approx(told.personal[1] - 0.5, abs=0.02)
    # A vote counts once.
    (run,) = evaluate(file, ["longest"], ["none"], root=None).runs
    assert len(run.verdicts) == 24 * 15 and run.accuracy == 0.5
    assert run.verdicts.ceilings.personal == told.personal


def choice(item: StudyItem, likes_long: bool, again: bool) -> GivenAnswer:
    longer = "first" if len(item.answers[0]) > len(item.answers[1]) else "second"
    shorter = "second" if longer == "first" else "first"
    if again:  # asked again, everybody takes the longer
        return GivenAnswer(choice=longer)
    return GivenAnswer(choice=longer if likes_long else shorter)


def test_choices_in_the_store_are_rows_and_repeats_tell_of_raters(tmp_path):
    study = collection(questions(90), folder=tmp_path / "study", traits=(AGE,))
    study.write()
    assert read_study(study.folder) == study
    store = StudyStore(study, choose=choose_next(study, Session()))
    for number, (rater, token) in enumerate(sorted(store.issue_links().items())):
        store.consent(rater)
        store.set_traits(rater, {"age": "40"})
        while not (state := store.rater(token)).finished:
            asked = store.entry(rater, state.next_position)
            answer = choice(asked.item, number % 2 == 0, asked.entry.again)
            store.save(rater, state.next_position, answer)
        assert state.answered == 30
    answers = store.answers()
    store.close()
    rows = Dataset.from_rows("rows", list(contract_rows(study, answers)))
    assert len(rows.pairs) == 4 * 27
    assert {pair.user_id[9:] for pair in rows.pairs} == {answer.rater for answer in answers}
    assert len(mirrors(rows).couples) == 2 * 9
    assert all(pair.traits == {"age": "40"} and pair.date for pair in rows.pairs)
    report = retest_report(answers)
    assert (report.agreement.n, report.agreement.value, report.n_late) == (12, 0.5, 0)
    assert report.drifted == "not shown"
