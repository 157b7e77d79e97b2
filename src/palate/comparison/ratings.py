"""A run against the ratings its users gave; nothing is computed by the scorer for it."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import chain, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.benchmarks import Dataset
from palate.errors import BenchmarkError, DataError
from palate.metrics import Clusters, Estimate, Predictions
from palate.runs import RatingBaseline, RatingReport, ReportedEstimate, Run, Verdicts, with_holm

Floats = NDArray[np.float64]
BASELINES = ("user mean", "global mean")
LARGEST = float(np.finfo(np.float32).max)


def evaluate_ratings(run: Run, *, seed: int = 0) -> RatingReport:
    """Return how a run's scores agree with the users' own ratings of the responses.

    Each (question, response) that a user rated counts once: with the mean of its ratings, which is
    then mapped from their scale to [0, 1], and the float32 of its first score by row id. So do
    those of undecided rows, where `evaluate(rate_undecided=True)` scored them. Figures are means
    over users with the jackknife by user and question: Spearman and Kendall τ-b; the error and the
    alignment 1 − |predicted − given| of predictions by isotonic regression of the user's other
    ratings (5 folds); and the same of the user's mean and of the other users' mean. Where rows name
    no scale, the lowest and highest rating given are taken for it, and `scale` says so. Raises
    `BenchmarkError` where no row is rated, `DataError` for a rating outside of its scale.

    >>> from palate.benchmarks import Dataset
    >>> from palate.comparison import evaluate
    >>> from palate.records import Gold, PreferencePair
    >>> pairs = tuple(
    ...     PreferencePair(
    ...         id=f"{k}", user_id=f"u{k % 4}", text=f"Tea {k}?", chosen="y" * (k + 2),
    ...         rejected="n", gold=Gold(ratings=(2 + k // 4, 1), rating_scale=(1, 5)),
    ...     )
    ...     for k in range(12)
    ... )
    >>> found = evaluate_ratings(evaluate(Dataset("tea", pairs), "longest", "none", root=None))
    >>> round(found.spearman.value, 3), found.n_ratings, found.n_users
    (1.0, 24, 4)
    """
    verdicts = run.verdicts
    if run.undecided is not None:
        verdicts = Verdicts(chain(verdicts.rows, run.undecided.rows))
    verdicts = verdicts.by_id()
    items, n_unscored, scale = _items(run, verdicts)
    scores, ratings, users = items.scores, items.ratings, items.users
    clusters = Clusters.of(users, questions=items.questions, texts=(items.names,))
    ranks = metrics.rank_correlations(scores, ratings, clusters)
    predicted = metrics.cross_fitted_predictions(scores, ratings, users, items.names, seed=seed)
    places, summary = verdicts.rated[0], run.summary
    _, counts = np.unique(users, return_counts=True)
    return RatingReport(
        **summary.model_dump(include={"benchmark", "scorer", "context", "oracle"}),
        n_ratings=len(scores),
        n_users=len(counts),
        n_unrated=int(np.count_nonzero(places < 0)),
        n_undecided=summary.undecided_rows - len(run.undecided or ()),
        n_unscored=n_unscored,
        n_users_too_few=ranks.left_out,
        n_users_single=int(np.count_nonzero(counts == 1)),
        scale=scale,
        spearman=_by_users(ranks.spearman),
        kendall=_by_users(ranks.kendall),
        rating_error=ReportedEstimate.of(metrics.mean_error(predicted.scorer, ratings, clusters)),
        baselines=tuple(_baseline(name, predicted, ratings, clusters) for name in BASELINES),
        note=None if len(scores) else "no response has a score of its own",
    )


def ratings_of(runs: Sequence[Run], *, seed: int = 0) -> list[RatingReport]:
    """Return every run against ratings, Holm-corrected over gains on baselines, without oracles."""
    reports = [evaluate_ratings(run, seed=seed) for run in runs]
    tables = [None if one.oracle else one.benchmark for one in reports for _ in one.baselines]
    baselines = [baseline for one in reports for baseline in one.baselines]
    corrected = iter(with_holm(baselines, [baseline.p for baseline in baselines], tables))
    return [
        one.model_copy(update={"baselines": tuple(islice(corrected, len(one.baselines)))})
        for one in reports
    ]


def check_ratings(pairs: Dataset) -> None:
    """Raise `BenchmarkError` where no pair is rated, `DataError` for a rating outside its scale.

    >>> check_ratings(Dataset("empty", ()))
    Traceback (most recent call last):
    palate.errors.BenchmarkError: empty has no ratings (chosen_rating, rejected_rating)
    """
    rated = False
    for pair in (*pairs.pairs, *pairs.undecided):
        given, scale = [r for r in pair.gold.ratings if r is not None], pair.gold.rating_scale
        rated |= bool(given)
        if scale is not None and given:
            _check_scale(pair.id, min(given), max(given), scale)
    if not rated:
        raise BenchmarkError(f"{pairs.name} has no ratings (chosen_rating, rejected_rating)")


def _check_scale(row: str, low: float, high: float, scale: tuple[float, float]) -> None:
    if low < scale[0] or high > scale[1]:
        raise DataError(
            f"row {row!r}: {low if low < scale[0] else high:g} lies outside of its rating_scale "
            f"[{scale[0]:g}, {scale[1]:g}]"
        )


class _Items(NamedTuple):
    """Distinct rated responses of users that have a score."""

    scores: Floats
    ratings: Floats
    users: NDArray[np.int64]
    questions: NDArray[np.int64]
    names: NDArray[np.bytes_]


def _items(run: Run, verdicts: Verdicts) -> tuple[_Items, int, tuple[float, float] | None]:
    places, columns = verdicts.rated
    rows = np.flatnonzero(places >= 0)
    if not rows.size:
        raise BenchmarkError(
            f"no row of {run.summary.scorer} ({run.summary.context}) on {run.summary.benchmark} "
            "holds a rating; if the data do, run `palate evaluate` again (nothing is computed "
            "twice)"
        )
    ranked, keys = places[rows], verdicts.keys
    ids = [keys[k][0] for k in rows.tolist()]
    scales, guessed = _scales(ids, columns.ratings[ranked], columns.scales[ranked])
    rated, ends = columns.ratings[ranked].ravel(), np.repeat(scales, 2, axis=0)
    known = np.flatnonzero(~np.isnan(rated))
    # Users by name and items by content: no figure may depend on the file's order.
    owners = np.repeat(np.unique(verdicts.users[rows], return_inverse=True)[1], 2)
    question_codes = np.repeat(verdicts.question_codes[rows], 2)
    what = columns.responses[ranked].ravel()
    # Stable, so that within one item the rows stay in the order of their ids.
    known = known[np.lexsort((owners[known], what[known]))]
    scores = columns.scores[ranked].ravel()[known]
    users, responses, questions = owners[known], what[known], question_codes[known]
    new = np.ones(len(users), dtype=bool)
    new[1:] = (responses[1:] != responses[:-1]) | (users[1:] != users[:-1])
    item = np.cumsum(new) - 1
    means = _means(item, rated[known], ends[known])
    scored = np.flatnonzero(~np.isnan(scores))
    chosen, first = np.unique(item[scored], return_index=True)
    # Verdicts too are told on float32.
    single = np.clip(scores[scored][first], -LARGEST, LARGEST).astype(np.float32)
    starts = np.flatnonzero(new)[chosen]
    named = (column[starts] for column in (users, questions, responses))
    items = _Items(single.astype(np.float64), means[chosen], *named)
    return items, len(means) - len(chosen), guessed


def _means(item: NDArray[np.int64], ratings: Floats, scales: Floats) -> Floats:
    # Averaged, then scaled: a seventh of ten in three rows is the same number as in one.
    counts = np.bincount(item)
    starts = (ends := np.cumsum(counts)) - counts
    means = np.bincount(item, weights=ratings) / counts
    fractions = np.bincount(item, weights=ratings != np.rint(ratings)) > 0
    for k in np.flatnonzero(fractions & (counts > 1)).tolist():
        exact = [Fraction(repr(rating)) for rating in ratings[starts[k] : ends[k]].tolist()]
        means[k] = float(sum(exact) / len(exact))
    low, high = scales[starts].T
    several = np.bincount(item, weights=(scales != scales[starts][item]).any(axis=1)) > 0
    apart = np.bincount(item, weights=_on_unit(ratings, *scales.T)) / counts
    return np.where(several, apart, _on_unit(means, low, high))


def _on_unit(ratings: Floats, low: Floats, high: Floats) -> Floats:
    return (ratings - low) / np.where(high > low, high - low, 1.0)


def _scales(
    ids: Sequence[str], ratings: Floats, scales: Floats
) -> tuple[Floats, tuple[float, float] | None]:
    unknown = np.isnan(scales[:, 0])
    guessed = None
    if unknown.any():
        given = ratings[unknown]
        guessed = float(np.nanmin(given)), float(np.nanmax(given))
        scales = np.where(unknown[:, None], guessed, scales)
    low, high = scales[:, :1], scales[:, 1:]
    for k in np.flatnonzero(((ratings < low) | (ratings > high)).any(axis=1)).tolist():
        ends = float(scales[k, 0]), float(scales[k, 1])
        _check_scale(ids[k], float(np.nanmin(ratings[k])), float(np.nanmax(ratings[k])), ends)
    return scales, guessed


def _by_users(estimate: Estimate) -> ReportedEstimate:
    return ReportedEstimate.of(estimate).model_copy(update={"n": estimate.n_units})


def _baseline(
    name: str, predicted: Predictions, ratings: Floats, clusters: Clusters
) -> RatingBaseline:
    guess = predicted.user_mean if name == BASELINES[0] else predicted.global_mean
    both = np.where(np.isnan(predicted.scorer), np.nan, guess)
    saved = metrics.error_reduction(predicted.scorer, both, ratings, clusters)
    error, reduction = metrics.mean_error(both, ratings, clusters), ReportedEstimate.of(saved)
    return RatingBaseline(
        name=name, rating_error=ReportedEstimate.of(error), error_reduction=reduction, p=saved.p
    )
