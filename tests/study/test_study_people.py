"""People as a scorer: looked up by what they were shown, in one table with the others."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import palate
from palate.benchmarks import Dataset, load_benchmark
from palate.errors import RunError, SpecError, UsageError
from palate.records import Slate
from palate.scorers import build_scorer
from palate.session import Session
from palate.study import DIMENSIONS, Study, StudyItem
from palate.study.agreement import agreement
from palate.study.database import GivenAnswer
from palate.study.people import People
from palate.study.planning import StudyOptions, plan_study
from palate.study.store import StudyStore

CONTEXTS = ("none", "profile:5", "stranger:5")
RATINGS = dict.fromkeys(DIMENSIONS, (4, 4))


@pytest.fixture
def pairs() -> Dataset:
    return load_benchmark("tasting", limit=12)


def planned(pairs: Dataset, folder: Path, contexts: tuple[str, ...], raters: int) -> Study:
    study = plan_study(pairs, StudyOptions(raters, contexts=contexts), folder)
    study.write()
    return study


@pytest.fixture
def study(pairs: Dataset, tmp_path: Path) -> Study:
    return planned(pairs, tmp_path / "study", CONTEXTS, 15)


def slate_of(item: StudyItem) -> Slate:
    return Slate(question=item.question, shown=item.shown, candidates=item.answers)


def teas(users: tuple[str, ...], rejected: str = "green") -> Dataset:
    """Return a row of each user; of the first two with a post, whatever they are called."""
    return Dataset.from_rows("teas", [
        {"id": f"r{k}", "user_id": user, "question": f"Which tea in {k}?",
         "chosen": f"{k}: black", "rejected": f"{k}: {rejected}",
         "profile": [{"id": f"p{k}", "text": f"{user} posted {k}"}] * (k < 2)}
        for k, user in enumerate(users)
    ])  # fmt: skip


def answer_all(study: Study, raters: int, *, blind_to_checks: int = 0) -> None:
    """The first raters answer all: who knows picks the chosen answer under `profile:5` alone."""
    gold = {row.item: row.chosen for row in study.gold if row.context == "profile:5"}
    with closing(StudyStore(study)) as store:
        for number, (rater, _) in zip(range(raters), store.issue_links().items(), strict=False):
            store.consent(rater)
            position = 0
            while (entry := store.entry(rater, position)) is not None:
                item, position = entry.item, position + 1
                assert item is not None
                longer = "first" if len(item.answers[0]) > len(item.answers[1]) else "second"
                choice = gold.get(item.id, longer)
                if item.kind == "check":
                    choice = "same" if number < blind_to_checks else str(item.expected)
                elif number < blind_to_checks:
                    choice = "same"
                ratings = RATINGS if item.asks == "better" else {}
                store.save(rater, position - 1, GivenAnswer(choice=choice, ratings=ratings))


def test_people_stand_in_one_table_and_know_the_user_where_they_are_shown_posts(
    pairs: Dataset, study: Study, tmp_path: Path
) -> None:
    answer_all(study, 15)
    spec = f"people:{study.folder}"
    grid = palate.evaluate(pairs, [spec, "longest"], CONTEXTS, root=tmp_path / "runs")
    accuracy = {run.summary.context: run.accuracy for run in grid.runs if spec in run.cell}
    assert accuracy == {"none": 0.5, "profile:5": 1.0, "profile:5?of=stranger": 0.5}
    (verdict,) = [run for run in grid.runs if run.cell[1:] == (spec, "profile:5")]
    assert verdict.verdicts.shared
    assert verdict.summary.notes[0] == "180 answers of 15 people"
    # Every rater agrees with every other, and with who picks the longer where nothing is known.
    result = agreement(study.folder, [tmp_path / "runs"], root=None)
    (panel,) = result.summary.panels
    shares = {of.of: of.estimate.value for of in panel.figures if of.measure == "with a rater"}
    assert (shares["longest (none)"], shares["longest (profile:5)"]) == (1, 0.5)
    # People would be held against their own answers.
    assert not any("people" in name for name in shares)
    with pytest.raises(UsageError, match="no run here, those of people apart, scored"):
        agreement(study.folder, (tmp_path / "runs").glob("*/people*"), root=None)
    findings = [of.finding for of in panel.figures if of.measure == "chosen − rejected"]
    assert len(findings) == 3 and all(str(of).startswith("not tested") for of in findings)


def test_the_margin_is_a_difference_of_shares_whichever_stands_first(study: Study) -> None:
    item = next(item for item in study.items.values() if item.kind == "pair")
    who = [
        (place, [entry.item for entry in entries].index(item.id))
        for place, entries in enumerate(study.plan.lists)
        if item.id in {entry.item for entry in entries}
    ]
    with closing(StudyStore(study)) as store:
        names = list(store.issue_links())
        for (place, position), choice in zip(who, ("first", "first", "same"), strict=True):
            store.consent(names[place])
            for k in range(position + 1):
                given = GivenAnswer(choice="skip") if k < position else GivenAnswer(
                    choice=choice, ratings=RATINGS if item.asks == "better" else {}
                )  # fmt: skip
                store.save(names[place], k, given)
    spec, slate = f"people:{study.folder}", slate_of(item)
    judge = build_scorer(f"{spec}?raters=all", Session())
    assert isinstance(judge, People)
    turned = slate.model_copy(update={"candidates": slate.candidates[::-1]})
    margins = [judgement.margin for _, judgement in judge.judge([slate, turned])]
    assert margins == [pytest.approx(2 / 3), pytest.approx(-2 / 3)]
    # Skipped checks are failed ones: whoever skipped two is left out.
    other = next(item for item in study.items.values() if item.id not in judge.votes)
    (of_other,) = judge.judge([slate_of(other)])
    assert (of_other[1].margin, of_other[1].reason) == (None, "nobody answered")


def test_who_failed_checks_counts_only_where_all_raters_do(pairs: Dataset, study: Study) -> None:
    answer_all(study, 15, blind_to_checks=5)
    spec = f"people:{study.folder}"
    kept, everybody = (
        palate.evaluate(pairs, each, "profile:5", root=None)
        for each in (spec, f"{spec}?raters=all")
    )
    assert kept.accuracy == 1
    assert everybody.accuracy is not None and 0.7 < everybody.accuracy < 1
    assert "5 who failed checks are left out" in " ".join(kept.summary.notes)
    assert "5 who failed checks count too" in " ".join(everybody.summary.notes)
    assert build_scorer(f"{spec}?raters=kept", Session()).canonical == spec
    assert everybody.summary.scorer == f"{spec}?raters=all"
    assert len(agreement(study.folder, root=None).summary.panels) == 2


def test_new_answers_are_another_run_and_the_same_are_not(pairs: Dataset, study: Study) -> None:
    spec = f"people:{study.folder}"
    before = build_scorer(spec, Session()).info.fingerprint
    nobody = palate.evaluate(pairs, spec, "profile:5", root=None)
    assert nobody.summary.unscored_reasons == {"nobody answered": 24}
    answer_all(study, 3)
    after = build_scorer(spec, Session()).info.fingerprint
    assert before != after == build_scorer(spec, Session()).info.fingerprint


def test_rows_that_have_nothing_to_show_are_unscored_and_other_rows_refused(tmp_path: Path) -> None:
    pairs = teas(("ann", "bob", "cid", "dot"))
    study = planned(pairs, tmp_path / "study", ("profile:5",), 3)
    answer_all(study, 3)
    run = palate.evaluate(pairs, f"people:{study.folder}", "profile:5", root=None)
    assert (run.accuracy, run.summary.unscored) == (1, 2)
    assert run.summary.unscored_reasons == {"nothing shown": 2}
    bare = Slate(question=pairs.rows[3].messages, candidates=("3: black", "3: green"))
    ((_, alone),) = build_scorer(f"people:{study.folder}", Session()).judge([bare])
    assert alone.reason == "nobody answered", "whatever else is in its batch"
    asking = [{**row.to_row(), "question": "Which?"} for row in pairs.rows]
    others = Dataset.from_rows("teas", asking)
    for data, context in ((pairs, "none"), (others, "profile:5")):
        with pytest.raises(UsageError, match="a row is no item of its plan"):
            palate.evaluate(data, f"people:{study.folder}", context, root=None)


@pytest.mark.parametrize("contexts", [("none", "profile:5"), ("none", "profile:5", "stranger:5")])
def test_rows_that_the_plan_left_out_are_unscored_beside_none(
    tmp_path: Path, contexts: tuple[str, ...]
) -> None:
    # P2: under `none` all four rows are items, and a row without posts has the slate of such one.
    pairs = teas(("ann", "ann", "bob", "bob"), "green, which is much longer")
    raters = 3 * len(contexts)
    study = planned(pairs, tmp_path / "study", contexts, raters)
    answer_all(study, raters)
    spec = f"people:{study.folder}"
    grid = palate.evaluate(pairs, [spec, "longest"], contexts, root=None)
    runs = {run.summary.context: run for run in grid.runs if spec in run.cell}
    # Whoever is shown no posts picks the longer answer, which nobody chose.
    assert (runs["none"].accuracy, runs["none"].summary.unscored) == (0, 0)
    own = runs["profile:5"]
    assert (own.accuracy, own.summary.unscored) == (1, 2)
    assert own.summary.unscored_reasons == {"nothing shown": 2}
    if len(contexts) > 2:  # nobody's stranger has more words than bob, who has none
        stranger = runs["profile:5?of=stranger"].summary
        assert (stranger.n_pairs, stranger.unscored) == (4, 4)
    # A scorer that people stand beside is asked about every row as before.
    longest = {run.summary.context: run for run in grid.runs if "longest" in run.cell}
    assert longest["profile:5"].summary.unscored == 0


def test_another_margin_or_seed_than_the_plans_is_refused(
    pairs: Dataset, study: Study, tmp_path: Path
) -> None:
    answer_all(study, 6)
    with pytest.raises(UsageError, match=r"--margin 0.3: the margin is fixed as 0.25 before"):
        agreement(study.folder, margin=0.3, root=None)
    other = palate.Settings(seed=7)
    root = tmp_path / "runs"
    palate.evaluate(pairs, "longest", "none", root=root, settings=other)
    assert agreement(study.folder, [root], root=None).summary.panels
    palate.evaluate(pairs, "longest", "stranger:5", root=root, settings=other)
    with pytest.raises(UsageError, match=r"its seed is not the study's.* --seed 0"):
        agreement(study.folder, [root], root=None)


def test_other_data_contexts_or_seeds_are_refused(
    pairs: Dataset, study: Study, tmp_path: Path
) -> None:
    answer_all(study, 3)
    spec = f"people:{study.folder}"
    others = (
        (load_benchmark("tasting", limit=16), "none", {}),
        (pairs, "profile:4", {}),
        (pairs, "stranger:5", {"settings": palate.Settings(seed=7)}),
    )
    for data, context, more in others:
        with pytest.raises(UsageError, match="a row is no item of its plan; take the data"):
            palate.evaluate(data, spec, context, root=None, **more)
    with pytest.raises(SpecError, match="raters='some' is not one of kept, all"):
        build_scorer(f"{spec}?raters=some", Session())
    with pytest.raises(SpecError, match="needs a reference, as in people:STUDY"):
        build_scorer("people", Session())
    with pytest.raises(RunError, match="no study"):
        build_scorer(f"people:{tmp_path / 'none'}", Session())
