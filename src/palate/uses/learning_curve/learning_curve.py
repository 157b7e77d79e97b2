"""Learning curves: accuracy and concordance of personal models by choices per user.

All points of a curve are taken on the same users and the same pairs; a user's k choices are the
first k of one seeded order per repeat, so that more choices only add to fewer. Opposite votes on
the same two responses are coupled, as `--mirrors only` couples them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from palate.benchmarks import Dataset, dataset_of, need_pairs
from palate.contexts import NOTHING
from palate.errors import UsageError
from palate.evaluation import (
    HasStates,
    Progress,
    Work,
    evaluated,
    history_of,
    make_rows,
    own_user_keys,
)
from palate.records import Choice, Scorer, Settings, info_of
from palate.runs import SUMMARY, Manifest, with_holm
from palate.seeding import digest
from palate.session import Session
from palate.uses.learning_curve.consensus import majority_of_others
from palate.uses.learning_curve.models import Models, build_models, references_of
from palate.uses.learning_curve.points import CurveSummary, LearningCurve, Point, Shots
from palate.uses.learning_curve.scoring import Learner, Scored, Slates
from palate.uses.learning_curve.user_groups import Groups
from palate.uses.result import Cell, ValueColumn, ValueTable
from palate.uses.units import Doubles

SHOTS = (0, 1, 2, 5, 10, 20, 50)
REPEATS = 5
FIXED = 20
"""Users with at least this many choices are on every curve; larger numbers have fewer users."""
MAJORITY = "majority of the others"
EMPTY = np.zeros(0)
Baselines = str | Sequence[str] | Mapping[str, ArrayLike]


def learning_curve(
    benchmark: str | Path | Dataset,
    models: Models,
    *,
    shots: Sequence[int] = SHOTS,
    repeats: int = REPEATS,
    fixed: int = FIXED,
    whole: bool = True,
    baselines: Baselines = (),
    majority: bool = False,
    root: Path | str | None = "runs",
    session: Session | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> LearningCurve:
    """Return the points of every model: each number of shots, with `whole` all choices a user has.

    `models` are folders that `palate train` made, or a mapping of names to folders, models in
    memory or scorers with a state per user. The benchmark holds the pairs to be judged right or
    wrong, and users' earlier choices (rows with split adapt). `baselines` are scorers that read no
    choices, or a mapping of names to the credit of each pair (n; NaN where there is none).
    `root` is where results live; None keeps them in memory. Curves that are there are read.
    `progress` is told the rows of each baseline, then the points of all models.

    Raises:
        UsageError: for no model, where no user has as many choices as asked, for fewer than one
            repeat, and for baselines that read choices or mean nothing.
    """
    if repeats < 1:
        raise UsageError(f"learning curve: {repeats} repeats; expected 1 or more")
    if any(k < 0 for k in shots):
        raise UsageError(f"learning curve: {min(shots)} choices; expected 0 or more")
    baselines = [baselines] if isinstance(baselines, str) else baselines
    work = Work.of(session, settings, root)
    scorers = build_models(models, work)
    seed = work.settings.seed
    pairs = dataset_of(benchmark, seed)
    need_pairs(pairs.rows, pairs.name)
    if majority and pairs.mirrored:
        raise UsageError(
            "--majority means nothing on mirrored couples: leaving out a vote tips every close "
            "majority against it; leave --mirrors away, couples are found in the whole set too"
        )
    able = {user: held for user, held in history_of(pairs).items() if len(held) >= fixed}
    if not any(pair.user_id in able for pair in pairs.pairs):
        raise UsageError(f"{pairs.name}: no user with {fixed} choices or more has a pair to judge")
    credits = _credits(baselines, pairs, work, progress)
    if majority:
        credits[MAJORITY] = majority_of_others(pairs)
    drawn = ShotDraws((*sorted({*shots}), *(("all",) if whole else ())), repeats, fixed)
    if work.root is None:
        return _measured(scorers, pairs, able, credits, drawn, work, progress)
    manifest = _manifest(pairs, scorers, credits, drawn, work.settings)
    folder = manifest.folder(work.root)
    manifest.write(folder)
    if (folder / SUMMARY).is_file():
        return LearningCurve.read(folder)
    curve = replace(_measured(scorers, pairs, able, credits, drawn, work, progress), folder=folder)
    curve.save()
    return curve


class ShotDraws(NamedTuple):
    """Which choices a model learns from, and of which users."""

    shots: tuple[Shots, ...]
    repeats: int
    fixed: int


def _measured(
    scorers: Mapping[str, HasStates],
    pairs: Dataset,
    choices: Mapping[str, Sequence[Choice]],
    credits: Mapping[str, Doubles],
    drawn: ShotDraws,
    work: Work,
    progress: Progress | None,
) -> LearningCurve:
    seed = work.settings.seed
    judged = np.array([k for k, pair in enumerate(pairs.pairs) if pair.user_id in choices])
    some = replace(pairs, rows=tuple(pairs.pairs[k] for k in judged))
    slates = Slates(make_rows(some, work.context(NOTHING), seed=seed, user_keys=own_user_keys))
    learners = {
        name: Learner(name, scorer, slates, choices, seed) for name, scorer in scorers.items()
    }
    usable = np.isfinite([learner.margins(0) for learner in learners.values()]).all(axis=0)
    if not usable.any():
        raise UsageError(f"{pairs.name}: every pair has a response too long for a model")
    rows = np.flatnonzero(usable)
    groups = Groups(
        pairs,
        judged[rows],
        {user: len(held) for user, held in choices.items()},
        {name: getattr(scorer, "trained_on", frozenset()) for name, scorer in scorers.items()},
        seed,
    )
    cells = {name: Cell(scorer=name, context=NOTHING) for name in credits}
    cells |= {
        name: Cell(scorer=name, context=NOTHING, fingerprints=(_fingerprint(scorer, name),))
        for name, scorer in scorers.items()
    }
    number = {name: k for k, name in enumerate(cells)}
    table = ValueTable(replace(pairs, rows=tuple(pairs.pairs[k] for k in judged[rows])))
    for name, credit in credits.items():
        column = ValueColumn(cell=number[name], measure="accuracy", setting="nothing of the user")
        table.add(column, credit[judged[rows]])
    points = {
        name: list(groups.baseline(name, values))
        for name, values in zip(credits, table.values, strict=True)
    }
    points |= {name: [] for name in scorers}
    references = references_of(scorers)
    measured: dict[tuple[str, Shots], Scored] = {}
    for name in sorted(scorers, key=lambda name: name in references):  # references first
        base = learners[name].at(0, 1, rows)
        for k in drawn.shots:
            scored = base if k == 0 else learners[name].at(k, drawn.repeats, rows)
            measured[name, k] = scored._replace(margins=EMPTY, confidence=EMPTY)
            column = ValueColumn(cell=number[name], measure="accuracy", setting=f"{k} choices")
            table.add(column, scored.values)
            reference = measured.get((references.get(name, ""), k))
            points[name] += groups.points(name, k, scored, base, reference)
            if progress is not None:
                progress(len(measured), len(scorers) * len(drawn.shots))
    return LearningCurve(
        CurveSummary(
            benchmark=pairs.name,
            points=tuple(_corrected([point for each in points.values() for point in each])),
            references=references,
            pairs_left_out=len(judged) - len(rows),
            choices_left_out=max(learner.choices_left_out for learner in learners.values()),
            cells=tuple(cells.values()),
            columns=tuple(table.columns),
        ),
        table.rows(),
    )


def _fingerprint(scorer: HasStates, name: str) -> str:
    return info_of(cast(Scorer, scorer), name).fingerprint


def _manifest(
    pairs: Dataset,
    scorers: Mapping[str, HasStates],
    credits: Mapping[str, Doubles],
    drawn: ShotDraws,
    settings: Settings,
) -> Manifest:
    models = {name: _fingerprint(scorer, name) for name, scorer in scorers.items()}
    told = {name: digest(credit.tobytes().hex()) for name, credit in credits.items()}
    return Manifest.of(
        LearningCurve.kind,
        {
            "benchmark": pairs.name,
            "name": " ".join(scorers),
            "rows": pairs.content_hash,
            "history": pairs.history_hash,
            "models": models,
            "baselines": told,
            "drawn": [*drawn],
            "seed": settings.seed,
            "dtype": settings.dtype,
        },
        inputs={**models, **told},
    )


def _credits(
    baselines: Baselines,
    pairs: Dataset,
    work: Work,
    progress: Progress | None,
) -> dict[str, Doubles]:
    if isinstance(baselines, Mapping):
        return {name: np.asarray(credit, np.float64) for name, credit in baselines.items()}
    for spec in baselines:
        if info_of(work.scorer(spec), spec).needs_user:
            raise UsageError(f"baseline {spec}: it reads users' choices; name its folder with -m")
    return {
        spec: evaluated(spec, pairs, NOTHING, work, progress=progress).verdicts.values
        for spec in baselines
    }


def _corrected(points: Sequence[Point]) -> list[Point]:
    return with_holm(
        points,
        [point.p_gain_over_reference for point in points],
        [(point.group, point.shots) for point in points],
        into="p_gain_over_reference_holm",
    )
