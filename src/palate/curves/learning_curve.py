"""What more choices are worth: accuracy and concordance of personal models by choices per user.

All points of a curve are taken on the same users and the same pairs; a user's k choices are the
first k of one seeded order per repeat, so that more choices only add to fewer. Opposite votes on
the same two responses are coupled, as `--mirrors only` couples them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from palate import metrics
from palate.benchmarks import Dataset, load_benchmark, need_pairs
from palate.contexts import build_context
from palate.curves.consensus import majority_of_others
from palate.curves.groups import Groups
from palate.curves.models import Models, build_models, references_of
from palate.curves.points import LearningCurve, Point, Shots
from palate.curves.scoring import Doubles, Learner, Scored, Slates
from palate.errors import UsageError
from palate.evaluation import Options, Progress, evaluate, history_of, make_rows, own_state
from palate.records import Settings, traits_of
from palate.scorers import build_scorer

SHOTS = (0, 1, 2, 5, 10, 20, 50)
REPEATS = 5
FIXED = 20
"""Users with at least this many choices are on every curve; larger numbers have fewer users."""
MAJORITY = "majority of the others"
Baselines = Sequence[str] | Mapping[str, ArrayLike]


def learning_curve(
    models: Models,
    benchmark: str | Path | Dataset,
    *,
    shots: Sequence[int] = SHOTS,
    repeats: int = REPEATS,
    fixed: int = FIXED,
    whole: bool = True,
    baselines: Baselines = (),
    majority: bool = False,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> LearningCurve:
    """Return the points of every model: each number of shots, with `whole` all choices a user has.

    `models` are folders that `palate train` made, or a mapping of names to folders, models in
    memory or scorers with a state per user. The benchmark holds the pairs to be judged right or
    wrong, and users' earlier choices (rows with split adapt). `baselines` are scorers that read no
    choices, or a mapping of names to the credit of each pair (n; NaN where there is none).
    `progress` is told the rows of each baseline, then the points of all models.

    Raises:
        UsageError: for no model, where no user has as many choices as asked, for fewer than one
            repeat, and for baselines that read choices or mean nothing.
    """
    if repeats < 1:
        raise UsageError(f"learning curve: {repeats} repeats; expected 1 or more")
    settings = settings or Settings()
    scorers = build_models(models, settings)
    seed = settings.seed
    pairs = (
        benchmark if isinstance(benchmark, Dataset) else load_benchmark(str(benchmark), seed=seed)
    )
    pairs = pairs if pairs.split is not None else pairs.select()
    need_pairs(pairs.rows, pairs.name)
    if majority and pairs.mirrored:
        raise UsageError(
            "--majority means nothing on mirrored couples: leaving out a vote tips every close "
            "majority against it; leave --mirrors away, couples are found in the whole set too"
        )
    history = history_of(pairs)
    able = {user: listed for user, listed in history.items() if len(listed) >= fixed}
    judged = np.array([k for k, pair in enumerate(pairs.pairs) if pair.user_id in able])
    if not len(judged):
        raise UsageError(f"{pairs.name}: no user with {fixed} choices or more has a pair to judge")
    every: list[Shots] = [*sorted({0, *shots}), *(("all",) if whole else ())]
    credits = _credits(baselines, pairs, settings, progress)
    if majority:
        credits[MAJORITY] = majority_of_others(pairs)

    some = replace(pairs, rows=tuple(pairs.pairs[k] for k in judged))
    nothing = build_context("none", settings)
    slates = Slates(make_rows(some, nothing, seed=seed, whose=own_state))
    learners = {name: Learner(name, scorer, slates, able, seed) for name, scorer in scorers.items()}
    usable = np.isfinite([one.margins(0) for one in learners.values()]).all(axis=0)
    if not usable.any():
        raise UsageError(f"{pairs.name}: every pair has a response too long for a model")
    kept = np.flatnonzero(usable)
    groups = Groups(
        pairs,
        judged[kept],
        {user: len(listed) for user, listed in able.items()},
        {name: getattr(one, "trained_on", frozenset()) for name, one in scorers.items()},
        seed,
    )
    found = [
        point
        for name, credit in credits.items()
        for point in groups.baseline(name, credit[judged[kept]])
    ]
    references = references_of(scorers)
    referred: dict[tuple[str, Shots], Scored] = {}
    points: dict[str, list[Point]] = {name: [] for name in scorers}
    done = 0
    for name in sorted(scorers, key=lambda name: name in references):  # references first
        base = learners[name].at(0, 1, kept)
        for k in every:
            scored = base if k == 0 else learners[name].at(k, repeats, kept)
            if name in references.values():
                referred[name, k] = scored
            if k in (*shots, "all"):
                reference = referred.get((references.get(name, ""), k))
                points[name] += groups.points(name, k, scored, base, reference)
            done += 1
            if progress is not None:
                progress(done, len(scorers) * len(every))
    return LearningCurve(
        pairs.name,
        tuple(_corrected([*found, *(point for each in points.values() for point in each)])),
        references,
        len(judged) - len(kept),
        max(one.choices_left_out for one in learners.values()),
    )


def _credits(
    baselines: Baselines, pairs: Dataset, settings: Settings, progress: Progress | None
) -> dict[str, Doubles]:
    if isinstance(baselines, Mapping):
        return {name: np.asarray(credit, np.float64) for name, credit in baselines.items()}
    for spec in baselines:
        if traits_of(build_scorer(spec, settings), spec).needs_user:
            raise UsageError(f"baseline {spec}: it reads users' choices; name its folder with -m")
    how = Options(settings)
    return {
        spec: evaluate(spec, pairs, root=None, options=how, progress=progress).verdicts.values
        for spec in baselines
    }


def _corrected(points: Sequence[Point]) -> Iterator[Point]:
    families: dict[tuple[str, Shots | None], list[int]] = {}
    for k, point in enumerate(points):
        families.setdefault((point.group, point.shots), []).append(k)
    adjusted: dict[int, float | None] = {}
    for family in families.values():
        corrected = metrics.holm([points[k].p_gain_over_reference for k in family])
        adjusted.update(zip(family, corrected, strict=True))
    for k, point in enumerate(points):
        yield point._replace(p_gain_over_reference_holm=adjusted[k])
