"""A collection from its plan through the store to rows and retest agreement."""

from __future__ import annotations

from collections_of_choices import collection, questions

from palate.benchmarks import Dataset, mirrors
from palate.session import Session
from palate.study import StudyItem, Trait, read_study
from palate.study.agreement import retest_report
from palate.study.collecting import choose_next, contract_rows
from palate.study.database import GivenAnswer
from palate.study.store import StudyStore

AGE = Trait(name="age", question="How old are you?", options=("40", "50"))


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
