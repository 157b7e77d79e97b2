"""compare(): paired, on common pairs, corrected; refuses what is not the same figure."""

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from palate import metrics
from palate.comparison import compare
from palate.comparison.compare import paired_tests
from palate.errors import ComparisonError, RunError
from palate.evaluation import summarise
from palate.records import Outcome
from palate.runs import Run, Summary, Test, VerdictRow, Verdicts, load_runs


def made(name: str, right: list[float], *, ids: range | None = None, mirrored: bool = False) -> Run:
    kinds = Outcome.CHOSEN, Outcome.TIE, Outcome.REJECTED, Outcome.UNSCORED
    outcomes = dict(zip((1.0, 0.5, 0.0, -1.0), kinds, strict=True))
    hash_of = VerdictRow.hash_of
    rows = [
        VerdictRow(
            id=f"r{k}", content_hash=f"c{k}",
            question_hash=hash_of(f"q{k & ~1 if mirrored else k}"),
            response_hashes=(hash_of(f"c{k}"), hash_of(f"d{k}")), user=f"u{k % 11}", subset="all",
            mirror_of=f"r{k ^ 1}" if mirrored else None,
            outcome=outcomes[value], margin=None if value < 0 else value - 0.5,
            lengths=(5, 6 + k % 3),
        )
        for k, value in zip(ids or range(len(right)), right, strict=True)
    ]  # fmt: skip
    verdicts = Verdicts(rows)
    return Run(summarise(verdicts, benchmark="b", scorer=name, context="none"), verdicts)


def with_facts(run: Run, **facts: object) -> Run:
    return replace(run, summary=run.summary.model_copy(update=facts))


def draws(seed: int, p: float, n: int = 200) -> list[float]:
    return [float(x) for x in np.random.default_rng(seed).random(n) < p]


def test_difference_and_p_are_those_of_the_metrics_on_common_scored_rows() -> None:
    a, b = draws(1, 0.8), draws(2, 0.6)
    a[3] = b[5] = -1.0
    (test,) = paired_tests([(made("a", a), made("b", b))])
    kept = [k for k in range(200) if k not in (3, 5)]
    x, y = np.array(a)[kept], np.array(b)[kept]
    users = np.array([f"u{k % 11}" for k in kept])
    assert test.value == pytest.approx(np.mean(x - y))
    assert (test.n, test.n_users) == (198, 11)
    assert test.p == metrics.sign_flip_test(x - y, users)
    (mirror,) = paired_tests([(made("b", b), made("a", a))])
    assert mirror.value == pytest.approx(-test.value)
    assert mirror.p == pytest.approx(test.p)


def test_holm_ranks_and_what_they_leave_open() -> None:
    shares = {"poor": 0.5, "good": 0.9, "fine": 0.88}
    seeds = {"good": 1, "fine": 2, "poor": 3}
    found = compare([made(name, draws(seeds[name], p)) for name, p in shares.items()])
    ranks = {one.run.summary.scorer: (one.best, one.worst) for one in found.groups[0].ranking}
    assert [*ranks][-1] == "poor"
    assert ranks["poor"] == (3, 3)
    assert ranks["good"] == ranks["fine"] == (1, 2)
    raw = metrics.holm([t.p for t in found.tests])
    assert [t.p_holm for t in found.tests] == raw


def test_baselines_and_other_contexts_are_outside_of_tests_and_equal_scorers_are_tested_once() -> (
    None
):
    a, b, c, baseline = draws(1, 0.9), draws(2, 0.7), draws(3, 0.4), draws(4, 0.6)
    verdicts = {"a": a, "b": b, "twin": b, "c": c, "longest": baseline}
    runs = [made(name, right) for name, right in verdicts.items()]
    comparison = compare([*runs, with_facts(made("b", a), context="profile:3")])
    group, alone = comparison.groups
    assert (group.context, alone.context, alone.tests) == ("none", "profile:3", ())
    assert [(t.a.scorer, t.b.scorer) for t in group.tests] == [("a", "b"), ("a", "c"), ("b", "c")]
    ranks = {r.run.summary.scorer: (r.best, r.worst) for r in group.ranking}
    assert ranks == {"a": (1, 1), "b": (2, 3), "c": (4, 4), "longest": (None, None)}
    assert [run.summary.scorer for r in group.ranking for run in r.equal] == ["twin"]
    assert group.tests[0].p_holm == metrics.holm([test.p for test in group.tests])[0]


def test_a_test_does_not_depend_on_the_others() -> None:
    runs = [made(f"s{k}", draws(k, 0.5 + k / 40)) for k in range(5)]
    alone = {(t.a.scorer, t.b.scorer): t.p for t in compare(runs[:2]).tests}
    together = {(t.a.scorer, t.b.scorer): t.p for t in compare(runs).tests}
    assert alone.items() <= together.items()


def test_runs_that_share_too_few_pairs_are_refused_and_others_say_how_many() -> None:
    whole = made("whole", draws(1, 0.7))
    most = made("most", draws(2, 0.7, 185), ids=range(185))
    few = made("few", draws(3, 0.7, 170), ids=range(170))
    assert compare([whole, most]).groups[0].n_common == 185
    assert compare([whole, most]).tests[0].n == 185
    with pytest.raises(ComparisonError, match="170 of 200"):
        compare([whole, few])


def test_rows_with_the_same_id_and_other_texts_are_not_common() -> None:
    whole = made("whole", draws(1, 0.7))
    rows = (r.model_copy(update={"content_hash": "x"}) for r in whole.verdicts.rows)
    other = replace(with_facts(whole, scorer="other"), verdicts=Verdicts(rows))
    with pytest.raises(ComparisonError, match="0 of 200"):
        compare([whole, other])


def figures(test: Test | metrics.Estimate) -> tuple[float | None, ...]:
    return test.value, test.low, test.high, test.p


def test_couples_are_tested_as_couples() -> None:
    longest = made("blind", [1.0, 0.0] * 100, mirrored=True)
    knows = made("knows", draws(4, 0.8), mirrored=True)
    (test,) = paired_tests([(knows, longest)])
    values, users = knows.verdicts.values, knows.verdicts.users
    a, b = np.arange(200).reshape(-1, 2).T
    clusters = metrics.Clusters.of(users[a], users[b])
    means = (values[a] + values[b]) / 2
    expected = metrics.paired_difference(means, np.full(100, 0.5), clusters)
    assert figures(test) == pytest.approx(figures(expected))
    assert test.n == 100
    assert test.method == "t of the dyadic jackknife by user over couples"


def asked_alike(run: Run, n_questions: int) -> Run:
    """The same verdicts, as if users had been asked few questions."""
    rows = [
        row.model_copy(update={"question_hash": VerdictRow.hash_of(f"q{k % n_questions}")})
        for k, row in enumerate(run.verdicts.rows)
    ]
    return replace(run, verdicts=Verdicts(rows))


def test_where_users_share_questions_p_is_that_of_the_t_both_ways() -> None:
    a, b = (asked_alike(made(name, draws(seed, 0.7)), 7) for name, seed in (("a", 1), ("b", 2)))
    (test,) = paired_tests([(a, b)])
    users, asked = [k % 11 for k in range(200)], [k % 7 for k in range(200)]
    clusters = metrics.Clusters.of(users, questions=asked)
    values = a.verdicts.values, b.verdicts.values
    expected = metrics.paired_difference(*values, clusters)
    assert figures(test) == pytest.approx(figures(expected))
    assert test.method == "t of the jackknife by user and question"
    (few,) = paired_tests([(asked_alike(a, 2), asked_alike(b, 2))])
    assert (few.low, few.p) == (None, None)
    assert few.note == "no interval: 2.0 effective questions, and more than 2 are needed"


def test_oracles_and_other_protocols_are_not_compared() -> None:
    a, b = made("a", draws(1, 0.7)), made("b", draws(2, 0.7))

    with pytest.raises(ComparisonError, match="finished runs of two scorers"):
        compare([a, with_facts(b, oracle=True)])
    with pytest.raises(ComparisonError, match="protocol"):
        compare([a, with_facts(b, protocol="paper")])


def test_a_folder_without_runs_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="no finished run"):
        load_runs([tmp_path])
    with pytest.raises(RunError, match="no such folder"):
        load_runs([tmp_path / "nowhere"])


def test_a_summary_survives_its_json() -> None:
    summary = made("a", draws(1, 0.7)).summary
    assert Summary.model_validate_json(summary.model_dump_json()) == summary


def test_whole_sets_and_mirrored_couples_are_compared_apart() -> None:
    whole = [made(name, draws(seed, 0.7)) for seed, name in enumerate("ab", 1)]
    couples = [made(name, draws(k, 0.7, 60), mirrored=True) for k, name in enumerate("ab", 3)]
    found = compare([*whole, *couples])
    sizes = {group.name: group.n_common for group in found.groups}
    assert sizes == {"b": 200, "b (mirrored couples)": 60}
    assert [test.n for test in found.tests] == [200, 30]
    assert {test.benchmark for test in found.tests} == {"b"}


def test_runs_of_agreed_pairs_and_of_whole_sets_are_parted() -> None:
    whole = [made(name, draws(seed, 0.7)) for seed, name in enumerate("ab", 1)]
    some = [made(name, draws(3, 0.7, 60)) for name in "cd"]
    agreed = [
        replace(run, summary=run.summary.model_copy(update={"agreed_of": 200})) for run in some
    ]
    found = compare([*whole, *agreed])
    assert {group.name: group.n_common for group in found.groups} == {
        "b": 200,
        "b --agreed only": 60,
    }


def test_two_runs_of_one_scorer_under_one_context_are_refused_by_name() -> None:
    with pytest.raises(ComparisonError, match="there twice"):
        compare([made("a", draws(1, 0.7)), made("a", draws(2, 0.7))])


@pytest.mark.parametrize("seed", range(5))
def test_p_is_that_of_all_signs_where_users_are_few(seed: int) -> None:
    runs = [made(f"s{k}", draws(10 * seed + k, 0.4 + k / 10)) for k in range(4)]
    for test in compare(runs).tests:
        a, b = (next(r for r in runs if r.summary.scorer == s.scorer) for s in (test.a, test.b))
        difference = a.verdicts.values - b.verdicts.values
        by_user = [difference[np.arange(200) % 11 == user].sum() for user in range(11)]
        totals = [abs(np.dot(signs, by_user)) for signs in itertools.product((1, -1), repeat=11)]
        assert test.p == pytest.approx(np.mean(np.array(totals) >= abs(sum(by_user)) - 1e-9))
