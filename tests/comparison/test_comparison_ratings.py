"""Scores against the ratings that users gave."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from palate.benchmarks import Dataset
from palate.comparison import check_ratings, evaluate, ratings_of
from palate.comparison.ratings import evaluate_ratings
from palate.data import read_question
from palate.errors import BenchmarkError, DataError
from palate.metrics import cross_fitted_predictions, holm
from palate.records import Gold, Judgement, ScorerInfo, Scores, Slate
from palate.reports import rating_tables
from palate.runs import RatingReport, Run, load
from palate.seeding import digest


class Planted:
    """Scores of responses by a table; counts its calls."""

    def __init__(self, table, bend=lambda s: s) -> None:  # type: ignore[no-untyped-def]
        self.table, self.bend, self.calls = table, bend, 0
        self.info = ScorerInfo(fingerprint="planted", exact=True)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        for k, slate in enumerate(slates):
            self.calls += 1
            found = [self.table.get(t) for t in slate.candidates]
            yield k, Scores(values=tuple(None if v is None else self.bend(v) for v in found))


class FirstIsBetter:
    """A judge: it has no score of a response alone."""

    def judge(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Judgement]]:
        for k, _ in enumerate(slates):
            yield k, Judgement(margin=1.0, orders=(1.0, 1.0))


def row(
    name: str, user: str, texts: Sequence[str], ratings: tuple[float | None, float | None], **more
):  # type: ignore[no-untyped-def]
    fields = {
        "id": name, "user_id": user, "question": "Which?", "chosen": texts[0],
        "rejected": texts[1], "chosen_rating": ratings[0], "rejected_rating": ratings[1],
        "rating_scale": (1, 5), **more,
    }  # fmt: skip
    return read_question(fields, subset="all")


TABLE = {"a": 4.0, "b": 3.0, "c": 2.0, "d": 1.0}
HAND = Dataset(
    "hand",
    (
        row("1", "ann", "ab", (5, 3)),
        row("2", "ann", "cd", (4, 1)),
        row("3", "bob", "ba", (5, 4)),
        row("4", "bob", "cd", (3, 2)),
        row("5", "cy", "ab", (3, 3)),
        row("6", "cy", "cd", (None, None)),
        row("7", "di", "ab", (5, None)),
    ),
)


def big(n_users: int = 20, each: int = 8) -> tuple[Dataset, dict[str, float]]:
    rng, rows, table = np.random.default_rng(5), [], {}
    for u in range(n_users):
        for k in range(each):
            texts = [f"{u}-{k}-{j}" for j in "xy"]
            table |= dict(zip(texts, rng.normal(size=2).round(3).tolist(), strict=True))
            noisy = [float(np.clip(round(3 + table[t] + rng.normal()), 1, 5)) for t in texts]
            order = [0, 1] if noisy[0] >= noisy[1] else [1, 0]
            chosen, rejected = ((texts[j], noisy[j]) for j in order)
            both, question = (chosen[0], rejected[0]), f"Which, {u}-{k}?"
            ratings = chosen[1], rejected[1]
            rows.append(row(f"{u}-{k}", f"u{u}", both, ratings, question=question))
    return Dataset("big", tuple(rows)), table


PAIRS, SCORES = big()


def rated(data: Dataset, scorer: object, **more: object) -> RatingReport:
    """How a scorer's scores agree with the ratings of these rows."""
    return evaluate_ratings(evaluate(data, scorer, "none", root=None, name="p", **more))


def test_hand_worked() -> None:
    # ann: a b c d scored 4 3 2 1 and rated 5 3 4 1: ρ = 0.8, τ = 2/3.
    # bob: rated a 4, b 5, c 3, d 2: the same. cy: constant; di: one rating: both left out.
    found = rated(HAND, Planted(TABLE))
    assert found.spearman.value == pytest.approx(0.8)
    assert found.kendall.value == pytest.approx(2 / 3)
    assert (found.spearman.n, found.n_users_too_few, found.n_users_single) == (2, 2, 1)
    assert (found.n_ratings, found.n_users, found.n_unrated, found.n_unscored) == (11, 4, 1, 0)
    # cy's two equal ratings are predicted without error; ann's and bob's four items, each from
    # the three others (as many folds as items), on [0, 1] by (r - 1) / 4. ann, scores 1 to 4 rated
    # 0 ¾ ½ 1: without d the first fitted value is ⅝ (¾ and ½ pooled): error ⅝. Without c: 0, ½, 1,
    # between 0 and ½: ¼, error ½. Without b: 0, ¾, 1, between ¾ and 1: ⅞, error ⅜. Without a:
    # ⅝, error ⅜. Mean 15/32. bob, 1 to 4 rated ¼ ½ 1 ¾: d: ½, error ¼; c: ¼, ⅞, ⅞: 9/16,
    # error 1/16; b: ¼, ½, ¾: ⅝, error ⅜; a: 1, error ¼. Mean 15/64.
    assert found.rating_error.value == pytest.approx((15 / 32 + 15 / 64 + 0) / 3)
    assert found.rating_error.n == 10
    user_mean = found.baselines[0]
    # Each rating against the mean of the user's three others.
    ann, bob = [0, 0.5, 0.75, 1], [0.25, 0.5, 1, 0.75]
    away = [np.mean([abs((sum(r) - x) / 3 - x) for x in r]) for r in (ann, bob)]
    assert user_mean.rating_error.value == pytest.approx((sum(away) + 0) / 3)
    assert user_mean.error_reduction.value == pytest.approx(
        user_mean.rating_error.value - found.rating_error.value
    )  # type: ignore[operator]


def test_what_was_rated_twice_counts_once_with_the_mean() -> None:
    twice = (*HAND.pairs, row("8", "ann", "ac", (3, 4)))
    found = rated(Dataset("t", twice), Planted(TABLE))
    # a is now rated 4 on average, as c: 4 3 4 1 on scores 4 3 2 1.
    alone = Dataset("t", (row("1", "ann", "ab", (4, 3)), row("2", "ann", "cd", (4, 1))))
    assert found.n_ratings == 11
    one = rated(alone, Planted(TABLE)).spearman.value
    assert found.spearman.value == pytest.approx((one + 0.8) / 2)  # type: ignore[operator]
    other = row("9", "ann", "ab", (5, 3), question="And which?")
    asked = Dataset("t", (*HAND.pairs, other))
    assert rated(asked, Planted(TABLE)).n_ratings == 13


def test_rising_transforms_of_the_scores_change_nothing_at_all() -> None:
    plain = rated(PAIRS, Planted(SCORES))
    for bend in (lambda s: 8 * s - 4, lambda s: float(np.exp(s)), lambda s: s**3):
        assert rated(PAIRS, Planted(SCORES, bend)) == plain


def test_the_order_of_the_file_changes_nothing() -> None:
    plain = rated(PAIRS, Planted(SCORES))
    turned = replace(PAIRS, rows=PAIRS.pairs[::-1])
    assert rated(turned, Planted(SCORES)) == plain


def test_errors_are_those_of_the_predictions() -> None:
    found = rated(PAIRS, Planted(SCORES))
    items = [
        (SCORES[text], (given - 1) / 4, pair.user_id, digest(pair.text, text)[:16])
        for pair in PAIRS.pairs
        for text, given in zip((pair.chosen, pair.rejected), pair.gold.ratings, strict=True)
    ]  # fmt: skip
    items.sort(key=lambda item: item[3])
    scores, given, users, names = (list(column) for column in zip(*items, strict=True))
    predicted = cross_fitted_predictions(scores, given, users, [n.encode() for n in names])
    for guess, error in (
        (predicted.scorer, found.rating_error),
        (predicted.user_mean, found.baselines[0].rating_error),
        (predicted.global_mean, found.baselines[1].rating_error),
    ):
        away = np.abs(guess - np.array(given))
        means = [away[[u == user for u in users]].mean() for user in sorted(set(users))]
        assert error.value == pytest.approx(np.mean(means))
        assert error.n == 320
    low = found.baselines[0].error_reduction.low
    assert low is not None and low > 0, "the planted scores know the ratings"


def test_a_scorer_that_knows_nothing_saves_nothing() -> None:
    planted = Planted(dict.fromkeys(SCORES, 1.0))
    constant = rated(PAIRS, planted)
    assert constant.spearman.value == constant.kendall.value == 0
    assert constant.rating_error == constant.baselines[0].rating_error
    assert constant.baselines[0].error_reduction.value == 0
    random = evaluate_ratings(evaluate(PAIRS, "random", "none", root=None))
    low, high = random.spearman.low, random.spearman.high
    assert low is not None and high is not None and low < 0 < high
    assert (random.baselines[0].error_reduction.value or 0) < 0


def test_ratings_need_no_new_forward(tmp_path: Path) -> None:
    scorer = Planted(SCORES)
    run = evaluate(PAIRS, scorer, "none", root=tmp_path, name="p")
    calls, found = scorer.calls, evaluate_ratings(run)
    assert run.folder is not None
    assert evaluate_ratings(load(run.folder)) == found
    path = run.folder / "rows.jsonl"
    old = [one.model_copy(update={"ratings": None}).line() for one in run.verdicts.rows]
    path.write_text("\n".join(old) + "\n")
    with pytest.raises(BenchmarkError, match="run `palate evaluate` again"):
        evaluate_ratings(Run.read(run.folder))
    assert evaluate_ratings(evaluate(PAIRS, scorer, "none", root=tmp_path, name="p")) == found
    assert scorer.calls == calls


def test_unscored_responses_and_judges() -> None:
    table = {name: None if name.endswith("0-x") else s for name, s in SCORES.items()}
    found = rated(PAIRS, Planted(table))
    assert (found.n_ratings, found.n_unscored) == (300, 20)
    judge = evaluate_ratings(evaluate(PAIRS, FirstIsBetter(), "none", root=None, name="j"))
    assert (judge.n_ratings, judge.n_unscored, judge.spearman.value) == (0, 320, None)
    assert judge.note == "no response has a score of its own"
    assert [
        b.p_holm for b in ratings_of([evaluate(PAIRS, "random", "none", root=None)])[0].baselines
    ]


def test_holm_is_over_the_gains_of_a_table() -> None:
    runs = [evaluate(PAIRS, Planted(SCORES), "none", root=None, name="p"),
            evaluate(PAIRS, "longest", "none", root=None)]  # fmt: skip
    found = ratings_of(runs)
    p = [b.p for one in found for b in one.baselines]
    assert [b.p_holm for one in found for b in one.baselines] == pytest.approx(holm(p))


def test_without_a_scale_the_range_of_what_was_given_is_one_and_is_told() -> None:
    bare = tuple(p.model_copy(update={"gold": Gold(ratings=p.gold.ratings)}) for p in PAIRS.pairs)
    found = rated(replace(PAIRS, rows=bare), Planted(SCORES))
    with_scale = rated(PAIRS, Planted(SCORES))
    assert found.scale == (1, 5)
    assert with_scale.scale is None
    assert found.rating_error == with_scale.rating_error


def test_what_is_refused() -> None:
    none = tuple(p.model_copy(update={"gold": Gold()}) for p in HAND.pairs)
    with pytest.raises(BenchmarkError, match="hand has no ratings"):
        check_ratings(replace(HAND, rows=none))
    with pytest.raises(BenchmarkError, match="holds a rating"):
        evaluate_ratings(evaluate(replace(HAND, rows=none), "longest", "none", root=None))
    wild = Dataset("wild", (*HAND.pairs, row("8", "ann", "ac", (7, 4))))
    with pytest.raises(DataError, match=r"row '8': 7 lies outside of its rating_scale \[1, 5\]"):
        check_ratings(wild)
    with pytest.raises(DataError, match="row '8'"):
        rated(wild, Planted(TABLE))


def rated_in_several_pairs(answers: dict[str, dict[str, float]], scale: tuple[float, float]):  # type: ignore[no-untyped-def]
    """The best answer to each question against each of the others, as one person rated them."""
    return Dataset("several", tuple(
        row(f"{question}{text}", "u", texts[0] + text, (ratings[texts[0]], ratings[text]),
            question=question, rating_scale=scale)
        for question, ratings in answers.items()
        for texts in [list(ratings)] for text in texts[1:]
    ))  # fmt: skip


LENGTHS = {"a": 40, "b": 10, "c": 30, "d": 20, "e": 60, "f": 50, "g": 25, "h": 15}
ANSWERS = {"Q1": {"a": 7, "b": 3, "c": 2, "d": 1}, "Q2": {"e": 9, "f": 7, "g": 2, "h": 1}}


@pytest.mark.parametrize("tenths", [False, True])
def test_equal_ratings_in_different_numbers_of_pairs_stay_equal(tenths: bool) -> None:
    # By falling score the eight answers are rated 9 7 7 2 2 1 1 3.
    by = 0.1 if tenths else 1
    answers = {q: {t: round(r * by, 1) for t, r in rated.items()} for q, rated in ANSWERS.items()}
    data = rated_in_several_pairs(answers, (0, 10 * by))
    found = rated(data, Planted(LENGTHS))
    assert round(found.spearman.value or 0, 4) == 0.7395
    assert round(found.kendall.value or 0, 4) == 0.6425
    pairs = [(LENGTHS[t], r) for rated in ANSWERS.values() for t, r in rated.items()]
    scores, ratings = zip(*pairs, strict=True)
    assert found.spearman.value == pytest.approx(stats.spearmanr(scores, ratings).statistic)
    assert found.kendall.value == pytest.approx(stats.kendalltau(scores, ratings).statistic)
    assert found.n_ratings == 8


def test_a_response_rated_on_two_scales_is_averaged_on_the_unit_scale() -> None:
    both = (
        row("1", "ann", "ab", (5, 1), rating_scale=(1, 5)),
        row("2", "ann", "ac", (5, 2), rating_scale=(0, 10)),
        row("3", "ann", "dc", (3, 2), rating_scale=(0, 10)),
    )
    found = rated(Dataset("t", both), Planted(TABLE))
    # a: 1 and ½, so ¾ on average; b 0, c ⅕ twice, d 3/10: scores 4 3 2 1.
    assert found.spearman.value == pytest.approx(0.2)


def test_one_user_alone_has_no_interval_because_they_are_alone() -> None:
    alone = Dataset("alone", HAND.pairs[:2])
    found = rated(alone, Planted(TABLE))
    note = "no interval: 1.0 effective users, and more than 2 are needed"
    assert (found.spearman.low, found.spearman.note) == (None, note)
    assert found.baselines[0].error_reduction.note == note


def test_undecided_rows_are_named_whose_ratings_do_not_count() -> None:
    same = row("t", "ann", "aa", (3, 3), tie=True)
    data = Dataset("ties", (*HAND.pairs, row("8", "bob", "ac", (3, 3), tie=True), same)).select()
    assert (data.ties, len(data.rows)) == (2, 7)
    found = rated(data, Planted(TABLE))
    assert (found.n_undecided, found.n_ratings) == (2, 11)
    (table,) = rating_tables([found])
    assert any(note.startswith("2 undecided rows left out: ") for note in table.notes)
