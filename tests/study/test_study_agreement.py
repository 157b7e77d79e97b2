"""How far raters agree: by hand, against statsmodels, and with sides exchanged."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.weightstats import ttost_paired

from palate.errors import DataError, RunError, UsageError
from palate.records import Outcome
from palate.runs import ReportedEstimate, Run, Summary, VerdictRow, Verdicts, load, load_all
from palate.study import AnswerRow
from palate.study.agreement import Agreement, agreement
from palate.study.panels import (
    APART,
    BLIND,
    BY_LAW,
    Figure,
    Panel,
    RatingDifference,
    beside_people,
    equal_quality,
    panel,
)
from study.planted_answers import answer, check, exchanged, panel_of, written

NOTHING = ReportedEstimate(value=None, low=None, high=None, n=0)


def run_of(picks: dict[int, str], scorer: str = "s", context: str = "none") -> Run:
    """A run whose outcomes on rows of items are given; the first answer is chosen."""
    rows = []
    for item, outcome in picks.items():
        (first, second), name = answer(0, item).responses, f"row{item}"
        rows.append(
            VerdictRow(
                id=name, content_hash=VerdictRow.hash_of(name), question_hash=first,
                response_hashes=(first, second), user="u", subset="", mirror_of=None,
                outcome=Outcome(outcome), margin=None, lengths=(1, 1),
            )
        )  # fmt: skip
    summary = Summary(
        benchmark="b", scorer=scorer, context=context, n_pairs=len(rows), n_users=1,
        accuracy=NOTHING, strict_accuracy=None, bounds=None, ties=0, unscored=0,
    )  # fmt: skip
    return Run(summary, Verdicts(rows))


def rounded(document: Any) -> Any:
    """Numbers to 9 digits: the order of a sum may change the last ones."""
    return json.loads(json.dumps(document), parse_float=lambda text: round(float(text), 9))


def figures_of(found: Panel) -> dict[tuple[str, str], Figure]:
    return {(each.of, each.measure): each for each in found.figures}


@settings(max_examples=8, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    turned=st.sets(st.integers(0, 6)),
    checks_turned=st.booleans(),
    skipped=st.integers(0, 20),
)
def test_exchanging_the_answers_of_any_items_changes_no_figure(
    seed: int, turned: set[int], checks_turned: bool, skipped: int
) -> None:
    rows = panel_of(4, 7, seed)
    rows[skipped] = rows[skipped].model_copy(update={"choice": "skip", "ratings": {}})
    rows[5] = rows[5].model_copy(update={"choice": "same"})
    names = {answer(0, item).item for item in turned}
    other = [
        exchanged(row) if row.item in names or (checks_turned and row.kind == "check") else row
        for row in rows
    ]
    picks = dict.fromkeys(range(7), "chosen") | {2: "tie", 4: "rejected"}
    first, second = (
        rounded(panel(some, [run_of(picks)], 0.25).model_dump(mode="json"))
        for some in (rows, other)
    )
    assert first == second
    differences = [each for each in first["figures"] if each["measure"] == "chosen − rejected"]
    assert all(each["estimate"]["n"] >= 27 for each in differences) and len(differences) == 3


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=4, max_size=40).filter(
        lambda rated: len({a - b for a, b in rated}) > 1
    ),
    st.sampled_from([0.25, 0.5, 1.0]),
)
def test_with_a_rater_and_a_pair_of_its_own_each_it_is_ttost_paired(
    rated: list[tuple[int, int]], margin: float
) -> None:
    pairs = [RatingDifference(float(a - b), k, k) for k, (a, b) in enumerate(rated)]
    found, _ = equal_quality(pairs, [], "relevance", margin)
    chosen, rejected = (np.array(column, dtype=float) for column in zip(*rated, strict=True))
    expected, *_ = ttost_paired(chosen, rejected, -margin, margin)
    assert found.p == pytest.approx(float(expected), abs=1e-9)


def spread(mean: float, raters: int = 12, pairs: int = 10) -> list[RatingDifference]:
    wiggle = (-1.0, 0.0, 1.0)
    return [
        RatingDifference(mean + wiggle[(r + p) % 3], r, p)
        for r in range(raters)
        for p in range(pairs)
    ]


def test_equal_quality_needs_raters_who_tell_their_checks_apart() -> None:
    seen, checks = equal_quality(spread(0.0), spread(3.0), "relevance", 0.25)
    assert seen.finding == "equivalent"
    assert checks.estimate.low is not None and checks.estimate.low > 2.5
    blind, _ = equal_quality(spread(0.0), spread(0.3), "relevance", 0.25)
    assert (blind.finding, blind.p) == (BLIND, seen.p)
    unchecked, _ = equal_quality(spread(0.0), [], "relevance", 0.25)
    assert unchecked.finding == BLIND
    apart, _ = equal_quality(spread(0.9), [], "relevance", 0.25)
    assert apart.finding == "different"
    near, _ = equal_quality(spread(0.25), spread(3.0), "relevance", 0.25)
    assert near.finding == "not shown: the value is near the margin"


def test_only_raters_whose_own_checks_were_rated_show_equal_quality() -> None:
    # Twelve find all alike and left before a check; others see their checks and rate nothing else.
    strangers = [row._replace(rater=row.rater + 12) for row in spread(3.0)]
    unseen, checks = equal_quality(spread(0.0), strangers, "relevance", 0.25)
    assert unseen.finding == APART
    assert (unseen.estimate.n, checks.estimate.n) == (120, 120)
    assert (unseen.estimate.low, checks.estimate.low) != (None, None)
    # What is shown apart stays so, and what no margin holds is as it was.
    apart, _ = equal_quality(spread(0.9), strangers, "relevance", 0.25)
    near, _ = equal_quality(spread(0.25), strangers, "relevance", 0.25)
    assert (apart.finding, near.finding) == ("different", "not shown: the value is near the margin")
    only_checks, of_them = equal_quality([], strangers, "relevance", 0.25)
    assert (only_checks.finding, of_them.estimate.n) == (BY_LAW, 120)
    # Of six who see and six without a check, the six who see are tested.
    some = [row for row in spread(3.0) if row.rater < 6]
    half, of_checks = equal_quality(spread(0.0), [*some, *strangers], "relevance", 0.25)
    alone, _ = equal_quality(spread(0.0, raters=6), some, "relevance", 0.25)
    assert half == alone
    assert (half.finding, of_checks.estimate.n) == ("equivalent", 60)


def test_ratings_of_one_dimension_may_be_missing() -> None:
    rows = panel_of(4, 6, 0)
    whole = figures_of(panel(rows, [], 0.25))
    rows[3] = rows[3].model_copy(update={"ratings": {"relevance": rows[3].ratings["relevance"]}})
    some = figures_of(panel(rows, [], 0.25))
    for name, n in (("relevance", 24), ("correctness", 23)):
        assert some[name, "chosen − rejected"].estimate.n == n
    assert some["relevance", "α ordinal"] == whole["relevance", "α ordinal"]


def test_three_and_three_of_everybody_is_no_equality() -> None:
    alike = [RatingDifference(0.0, r, p) for r in range(6) for p in range(20)]
    found, _ = equal_quality(alike, alike, "helpfulness", 0.25)
    assert (found.estimate.value, found.p) == (0, None)
    assert found.finding == "not shown: all values are alike"


def test_mirrored_couples_are_not_tested() -> None:
    rows = [row.model_copy(update={"gold": "both"}) for row in panel_of(3, 4, 0, checks=0)]
    found = figures_of(panel(rows, [], 0.25))
    assert found["correctness", "chosen − rejected"].finding == BY_LAW
    assert ("none", "as the gold") not in found


def test_figures_of_choices_by_context_and_of_ratings_by_dimension() -> None:
    rows = [
        answer(rater, item, choice=choice, contexts=contexts, ratings=ratings)
        for item, contexts, choices, ratings in (
            (0, ("none",), ("first", "first", "first"), {"relevance": (4, 2)}),
            (1, ("profile:5", "stranger:5"), ("first", "same", "second"), {}),
            (2, ("profile:5",), ("second", "second", "skip"), {}),
        )
        for rater, choice in enumerate(choices)
    ]
    repeat = answer(0, 0, again=True, choice="second", ratings={"relevance": (1, 5)})
    found = panel([*rows, repeat, check(0, 1), check(1, 1, passed=False)], [], 0.25)
    assert (found.raters, found.answers) == (3, 8)
    of = {key: each.estimate for key, each in figures_of(found).items()}
    names = ("none", "profile:5", "stranger:5", "relevance")
    assert [(of[name, "percent"].value, of[name, "percent"].n) for name in names] == [
        (1, 1), (0.5, 2), (0, 1), (1, 2),
    ]  # fmt: skip
    golds = [of[name, "as the gold"].value for name in names[:3]]
    assert golds == [1, pytest.approx(1.5 / 5), 0.5]
    assert of["none", "α nominal"].value == of["relevance", "α ordinal"].value == 1
    assert ("relevance", "α nominal") not in of
    apart = of["relevance", "chosen − rejected"]
    # The third rater met no check.
    assert (apart.value, apart.n, of["relevance", "on checks"].n) == (2, 2, 2)


def test_a_scorer_beside_people_is_the_mean_over_pairs_of_raters() -> None:
    stream = np.random.default_rng(3)
    sides = ("first", "same", "second")
    rows = [
        answer(rater, item, choice=sides[stream.integers(3)])
        for item in range(30)
        for rater in stream.permutation(9)[:3]
    ]
    outcomes = {item: ("chosen", "tie", "rejected", "unscored")[item % 4] for item in range(28)}
    with_a_rater, another, difference = beside_people(rows, [run_of(outcomes)])

    def alike(one: str, other: str) -> float:
        return 0.5 if "same" in {one, other} else float(one == other)

    picks = {answer(0, k).item: ("first", "same", "second", None)[k % 4] for k in range(28)}
    couples = [
        (a, b, picks[a.item])
        for a, b in combinations(rows, 2)
        if a.item == b.item and picks.get(a.item)
    ]
    with_rater = [(alike(a.choice, pick) + alike(b.choice, pick)) / 2 for a, b, pick in couples]
    people = [alike(a.choice, b.choice) for a, b, _ in couples]
    assert with_a_rater.estimate.value == pytest.approx(np.mean(with_rater))
    assert another.estimate.value == pytest.approx(np.mean(people))
    assert difference.estimate.value == pytest.approx(np.mean(with_rater) - np.mean(people))
    assert difference.estimate.n == len(couples) == 63


def test_a_perfect_scorer_agrees_with_a_rater_more_often_than_another_rater() -> None:
    # Raters are right 0.8 of the time: 0.8 beside 0.68.
    stream = np.random.default_rng(8)
    rows = [
        answer(int(rater), item, choice="first" if stream.random() < 0.8 else "second")
        for item in range(400)
        for rater in stream.permutation(12)[:3]
    ]
    perfect, wrong = run_of(dict.fromkeys(range(400), "chosen")), run_of({0: "chosen"}, "few")
    other = run_of(dict.fromkeys(range(400), "chosen"), context="profile:5")
    alone = [*beside_people(rows, [perfect])]
    assert [each.measure for each in alone] == ["with a rater", "another rater", "difference"]
    assert alone[0].estimate.value == pytest.approx(0.8, abs=0.02)
    assert alone[1].estimate.value == pytest.approx(0.68, abs=0.03)
    best = alone[2]
    assert best.p is not None and best.p < 0.001
    # Holm: the p of two runs; one under another context scored no item.
    figures = [*beside_people(rows, [perfect, other, wrong])]
    assert [each.of for each in figures] == ["s (none)"] * 3 + ["few (none)"] * 3
    assert (figures[2].p, figures[5].p) == (2 * best.p, 1)


def test_two_runs_of_a_scorer_under_one_context_are_refused() -> None:
    rows = [answer(rater, 1) for rater in (0, 1)]
    runs = [run_of({1: "chosen"}), run_of({1: "rejected"})]
    with pytest.raises(UsageError, match=r"several runs of s \(none\) scored these items"):
        [*beside_people(rows, runs)]
    with_other = [*beside_people(rows, [runs[0], run_of({2: "chosen"})])]
    assert len(with_other) == 3


def test_rows_of_other_answers_are_no_rows_of_the_study() -> None:
    rows = [answer(rater, 1) for rater in (0, 1)]
    other = rows[0].model_copy(update={"responses": answer(0, 2).responses})
    assert [*beside_people(rows, [run_of({1: "chosen"})])]
    assert not [*beside_people([other, rows[1]], [run_of({1: "chosen"})])]


def test_a_mirrored_couple_is_one_item_with_two_rows() -> None:
    both = (("none", "row1"), ("none", "row2"))
    rows = [answer(rater, 1, rows=both, gold="both") for rater in (0, 1)]
    run = run_of({1: "chosen", 2: "chosen"})
    first, second = run.verdicts.rows
    mirrored = second.model_copy(update={"response_hashes": first.response_hashes[::-1]})
    blind = Run(run.summary, Verdicts([first, mirrored]))
    found, *_ = beside_people(rows, [blind])
    # In one row the first answer is preferred, in the other the second: no side.
    assert found.estimate.value == 0.5


@pytest.fixture
def rows() -> list[AnswerRow]:
    """Five raters, of whom the last fails its checks."""
    listed = panel_of(4, 10, 1)
    listed += [answer(4, item, excluded=True, choice="same") for item in range(10)]
    return [*listed, *(check(4, k, passed=False, excluded=True) for k in range(4))]


def test_every_figure_is_there_with_and_without_the_excluded(
    rows: list[AnswerRow], tmp_path: Path
) -> None:
    file = written(tmp_path / "answers.jsonl", rows)
    result = agreement(file, root=tmp_path / "runs")
    summary = result.summary
    assert summary.excluded == 1
    assert [(each.raters, each.items, each.answers) for each in summary.panels] == [
        (4, 10, 40), (5, 10, 50),
    ]  # fmt: skip
    kept = [row for row in rows if not row.excluded]
    assert summary.panels == (panel(kept, [], 0.25), panel(rows, [], 0.25))
    alone = agreement(written(tmp_path / "kept.jsonl", kept), root=None).summary
    assert alone.panels == summary.panels[:1]
    apart = [row.disagreement for row in result.rows]
    assert apart == sorted(apart, key=lambda share: -(share or 0))
    assert {row.item for row in result.rows} == {row.item for row in kept if row.kind == "pair"}
    assert all(sum(row.choices.values()) == 4 for row in result.rows)


def test_the_result_lies_in_its_folder_and_is_renewed_only_by_other_answers(
    rows: list[AnswerRow], tmp_path: Path
) -> None:
    root = tmp_path / "runs"
    file = written(tmp_path / "answers.jsonl", rows)
    result = agreement(file, root=root)
    assert result.folder is not None
    assert result.folder.parent == root / "answers" / "agreement"
    assert load(result.folder).summary == result.summary
    assert load(result.folder).rows == result.rows  # type: ignore[attr-defined]
    again = agreement(file, root=root)
    assert again.folder == result.folder
    other = agreement(written(file, rows[:-1]), root=root)
    assert other.folder != result.folder
    assert len(load_all(root, Agreement.kind)) == 2
    texts = (result.folder / "rows.jsonl").read_text(encoding="utf-8")
    assert "Answer" not in texts


def test_refusals(rows: list[AnswerRow], tmp_path: Path) -> None:
    file = tmp_path / "answers.jsonl"
    for margin in (0.0, -1.0):
        with pytest.raises(UsageError, match=r"--margin .* the margin is a number above 0"):
            agreement(file, margin=margin)
    with pytest.raises(DataError, match="cannot be read"):
        agreement(file, root=None)
    written(file, [row for row in rows if row.kind == "check"])
    with pytest.raises(UsageError, match="nobody has answered an item yet"):
        agreement(file, root=None)
    again = rows[3].model_copy(update={"again": True})
    for more in ([rows[3]], [rows[-1]], [again, again]):
        written(file, [*rows, *more])
        with pytest.raises(UsageError, match=r"r0[34] answers item .* 2 times"):
            agreement(file, root=None)
    with pytest.raises(RunError, match="no such folder"):
        agreement(written(file, rows), [tmp_path / "no-runs"], root=None)


def test_whoever_is_excluded_in_one_line_is_excluded(rows: list[AnswerRow], tmp_path: Path) -> None:
    whole = agreement(written(tmp_path / "answers.jsonl", rows), root=None)
    rows = [*rows[:-1], rows[-1].model_copy(update={"excluded": False})]
    assert agreement(written(tmp_path / "answers.jsonl", rows), root=None).summary == whole.summary


def test_where_all_are_excluded_the_second_panel_tells(
    rows: list[AnswerRow], tmp_path: Path
) -> None:
    nobody = [row.model_copy(update={"excluded": True}) for row in rows]
    result = agreement(written(tmp_path / "answers.jsonl", nobody), root=None)
    empty, everybody = result.summary.panels
    assert (empty.raters, empty.figures, result.rows) == (0, (), ())
    assert everybody == panel(rows, [], 0.25)
