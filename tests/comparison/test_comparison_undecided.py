"""Ratings of rows that their users called ties: they count as those of any other row."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from test_comparison_ratings import (
    ANSWERS,
    HAND,
    LENGTHS,
    PAIRS,
    SCORES,
    TABLE,
    FirstIsBetter,
    Planted,
    rated_in_several_pairs,
    row,
)

from palate.benchmarks import Dataset, mirrors
from palate.comparison import check_ratings, evaluate, plan_grid
from palate.comparison.ratings import evaluate_ratings
from palate.errors import BenchmarkError, DataError, RunError
from palate.evaluation import JOURNAL, Work
from palate.records import Post, ScorerInfo, Settings
from palate.reports import rating_tables
from palate.runs import RatingReport, Run, load
from palate.session import Session


def with_ties(data: Dataset, ties: set[int]) -> Dataset:
    rows = [pair.model_copy(update={"tie": k in ties}) for k, pair in enumerate(data.pairs)]
    return replace(data, rows=tuple(rows), ties=0, split=None)


def rated(scorer: Planted, data: Dataset, root: Path | None = None) -> tuple[Run, RatingReport]:
    run = evaluate(data, scorer, "none", root=root, name="p", rate_undecided=True)
    return run, evaluate_ratings(run)


def figures(report: RatingReport) -> dict[str, object]:
    return report.model_dump(exclude={"n_undecided"})


def test_the_figures_of_the_case_stand_whichever_rows_are_ties() -> None:
    data = rated_in_several_pairs(ANSWERS, (0, 10))
    for ties in ({0}, {1, 4}, {0, 1, 2, 4, 5}):
        run, found = rated(Planted(LENGTHS), with_ties(data, ties))
        assert round(found.spearman.value or 0, 4) == 0.7395
        assert round(found.kendall.value or 0, 4) == 0.6425
        assert (found.n_ratings, found.n_undecided) == (8, 0)
        assert len(run.verdicts) == run.summary.n_pairs == 6 - len(ties)


def test_hand_worked() -> None:
    # eve decides on a and b (5, 2) and calls c and d (4, 3) a tie: scored 4 3 2 1, rated 5 2 4 3,
    # so Σd² = 0 + 4 + 1 + 1 = 6 and ρ = 1 − 36/60 = 0.4; of six pairs four agree: τ = 1/3.
    rows = (row("1", "eve", "ab", (5, 2)), row("2", "eve", "cd", (4, 3), tie=True))
    _, found = rated(Planted(TABLE), Dataset("eve", rows))
    assert found.spearman.value == pytest.approx(0.4)
    assert found.kendall.value == pytest.approx(1 / 3)
    assert (found.n_ratings, found.n_undecided, found.n_unrated) == (4, 0, 0)


def test_brute_force_over_users() -> None:
    ties = set(range(0, len(PAIRS.pairs), 3))
    _, found = rated(Planted(SCORES), with_ties(PAIRS, ties))
    of_users: dict[str, list[tuple[float, float]]] = {}
    for pair in PAIRS.pairs:
        texts = pair.chosen, pair.rejected
        of_users.setdefault(pair.user_id, []).extend(
            (SCORES[t], r) for t, r in zip(texts, pair.gold.ratings, strict=True) if r is not None
        )
    both = [np.array(each).T for each in of_users.values()]
    rho = np.mean([stats.spearmanr(*each).statistic for each in both])
    tau = np.mean([stats.kendalltau(*each).statistic for each in both])
    assert found.spearman.value == pytest.approx(rho)
    assert found.kendall.value == pytest.approx(tau)
    assert found.n_ratings == 320


@pytest.mark.parametrize("exact", [True, False])
def test_marking_rows_as_ties_and_their_order_change_no_figure(exact: bool) -> None:
    scorer = Planted(TABLE)
    scorer.info = ScorerInfo(fingerprint="planted", exact=exact)
    _, expected = rated(scorer, HAND)

    @settings(max_examples=25)
    @given(st.sets(st.integers(0, 6), max_size=6), st.permutations(range(7)))
    def law(ties: set[int], order: list[int]) -> None:
        marked = with_ties(HAND, ties)
        _, found = rated(scorer, replace(marked, rows=tuple(marked.rows[k] for k in order)))
        unrated = len(ties & {5})  # the row without a rating is nowhere, decided or not
        assert found.n_undecided == unrated
        assert figures(found) == figures(expected) | {"n_unrated": 1 - unrated}

    law()


def test_two_equal_answers_are_rated_as_a_tie() -> None:
    same = row("8", "bob", "dd", (3, 3), tie=True)
    _, found = rated(Planted(TABLE), Dataset("same", (*HAND.pairs, same)))
    # bob's d is rated 2 and 3, 3 once more: the mean of three ratings, 8/3, on (1, 5).
    assert (found.n_ratings, found.n_undecided) == (11, 0)
    assert found.kendall.value == pytest.approx(2 / 3)


def test_a_run_is_byte_for_byte_what_it_is_without(tmp_path: Path) -> None:
    data = with_ties(PAIRS, {1, 5, 40})
    plain = evaluate(data, Planted(SCORES), "none", root=tmp_path / "plain", name="p")
    run, _ = rated(Planted(SCORES), data, tmp_path / "rated")
    assert plain.folder is not None
    assert run.folder is not None
    assert plain.folder.name == run.folder.name
    assert run.content_hash == plain.content_hash
    written = {path.name: path.read_bytes() for path in plain.folder.iterdir()}
    del written["sums.json"]  # names undecided.jsonl too
    both = {path.name: path.read_bytes() for path in run.folder.iterdir()}
    assert {*both} - {*written} == {"undecided.jsonl", JOURNAL, "sums.json"}
    assert {name: both[name] for name in written} == written
    lines = [json.loads(line) for line in both["undecided.jsonl"].splitlines()]
    assert [line["outcome"] for line in lines] == ["unscored"] * 3
    assert [line["reason"] for line in lines] == ["undecided"] * 3


@pytest.mark.parametrize("exact", [True, False])
def test_what_is_scored_is_not_scored_again(tmp_path: Path, exact: bool) -> None:
    scorer, data = Planted(SCORES), with_ties(PAIRS, set(range(0, 160, 2)))
    scorer.info = ScorerInfo(fingerprint="planted", exact=exact)
    run, found = rated(scorer, data, tmp_path)
    assert (scorer.calls, run.folder is not None) == (160, True)
    assert run.folder is not None
    assert evaluate_ratings(load(run.folder)) == found
    journal = (run.folder / JOURNAL).read_bytes()
    assert rated(scorer, data, tmp_path)[1] == found
    # The other target takes the scores out of the run, and the journal keeps them.
    evaluate(data, scorer, "none", root=tmp_path, name="p")
    assert evaluate_ratings(load(run.folder)).n_undecided == 80
    assert rated(scorer, data, tmp_path)[1] == found
    assert (scorer.calls, (run.folder / JOURNAL).read_bytes()) == (160, journal)
    # Killed in the middle of a line: what is whole stays.
    (run.folder / JOURNAL).write_bytes(journal[: len(journal) // 2])
    (run.folder / "summary.json").unlink()
    with pytest.raises(RunError, match="not finished"):
        load(run.folder)
    assert rated(scorer, data, tmp_path)[1] == found
    assert 160 < scorer.calls <= 240


def test_an_exact_scorer_is_not_asked_what_the_run_has(tmp_path: Path) -> None:
    again = row("8", "bob", "ba", (4, 4), tie=True)
    scorer = Planted(TABLE)
    evaluate(HAND, scorer, "none", root=tmp_path, name="p")
    calls = scorer.calls
    _, found = rated(scorer, Dataset("hand", (*HAND.pairs, again)), tmp_path)
    assert (scorer.calls, found.n_undecided) == (calls, 0)


def test_judges_have_no_score_for_undecided_rows_either() -> None:
    judge = FirstIsBetter()
    data = with_ties(HAND, {0, 2})
    run = evaluate(data, judge, "none", root=None, name="j", rate_undecided=True)
    found = evaluate_ratings(run)
    assert (found.n_ratings, found.n_unscored, found.n_undecided) == (0, 11, 0)
    assert found.note == "no response has a score of its own"


def test_unscored_responses_of_undecided_rows_are_counted() -> None:
    _, found = rated(Planted(TABLE | {"d": None}), with_ties(HAND, {1}))
    assert (found.n_ratings, found.n_unscored) == (9, 2)


def test_a_limit_draws_the_same_share_of_undecided_rows() -> None:
    data = with_ties(PAIRS, set(range(60))).select()
    assert (len(data.rows), len(data.undecided), data.ties) == (100, 60, 60)
    some = data.limit(25)
    assert (len(some.rows), len(some.undecided), some.ties) == (25, 15, 60)
    assert [row.id for row in some.rows] == [
        row.id for row in replace(data, undecided=()).limit(25).rows
    ]
    assert {row.id for row in some.undecided} < {row.id for row in data.undecided}
    _, found = rated(Planted(SCORES), some)
    assert (found.n_ratings, found.n_undecided) == (2 * 40, 45)
    (table,) = rating_tables([found])
    assert any(note.startswith("45 undecided rows left out: ") for note in table.notes)


def test_couples_and_past_choices_take_no_undecided_row() -> None:
    tie = row("8", "bob", "ac", (3, 3), tie=True)
    couples = Dataset("c", (row("1", "ann", "ab", (5, 1)), row("2", "bob", "ba", (4, 2)), tie))
    assert len(couples.select().undecided) == 1
    assert mirrors(couples).undecided == ()
    learnt = Dataset("h", (*HAND.pairs, tie)).select().with_history([
        row("p", "bob", "ca", (None, None)), row("q", "ann", "ac", (None, None)),
    ])  # fmt: skip
    assert len(learnt.undecided) == 1
    assert learnt.undecided_to_rate == ()
    _, found = rated(Planted(TABLE), learnt)
    assert found.n_undecided == 1


def test_ratings_of_undecided_rows_are_checked() -> None:
    wild = Dataset("wild", (*HAND.pairs, row("8", "ann", "ac", (7, 4), tie=True))).select()
    with pytest.raises(DataError, match=r"row '8': 7 lies outside of its rating_scale \[1, 5\]"):
        check_ratings(wild)
    bare = [pair.model_copy(update={"gold": HAND.pairs[5].gold}) for pair in HAND.pairs]
    alone = Dataset("alone", (*bare, row("8", "ann", "ac", (5, 4), tie=True))).select()
    check_ratings(alone)
    assert rated(Planted(TABLE), alone)[1].n_ratings == 2
    with pytest.raises(BenchmarkError, match="holds a rating"):
        evaluate_ratings(evaluate(alone, Planted(TABLE), "none", root=None, name="p"))


def test_a_plan_counts_them() -> None:
    data = with_ties(HAND, {0, 1}).select()
    session, settings = Session(), Settings()
    plain = plan_grid([data], ["longest"], ["none"], Work.of(session, settings))
    work = Work.of(session, settings)
    cells = plan_grid([data], ["longest"], ["none"], work, rate_undecided=True)
    assert (plain[0].rate_undecided, cells[0].rate_undecided) == (False, True)


def test_strangers_are_drawn_for_undecided_rows_too() -> None:
    marked = with_ties(HAND, {0, 3}).pairs
    posts = [(Post(id="p", text=f"I, {pair.user_id}, wrote this."),) for pair in marked]
    data = Dataset("posts", tuple(
        pair.model_copy(update={"profile": post}) for pair, post in zip(marked, posts, strict=True)
    ))  # fmt: skip
    for context in ("profile:1", "stranger:1"):
        run = evaluate(data, Planted(TABLE), context, root=None, name="p", rate_undecided=True)
        found = evaluate_ratings(run)
        assert (found.n_ratings, found.n_unscored, found.n_undecided) == (11, 0, 0)
