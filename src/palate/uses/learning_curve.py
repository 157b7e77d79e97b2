"""Learning curves: accuracy and concordance of personal models by choices per user.

All points of a curve are taken on the same users and the same pairs; a user's k choices are the
first k of one seeded order per repeat, so that more choices only add to fewer. Opposite votes on
the same two responses are coupled, as `--mirrors only` couples them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Data, Dataset, dataset_of, need_pairs
from palate.contexts import NOTHING
from palate.errors import UsageError
from palate.evaluation import (
    HasStates,
    Progress,
    Raters,
    Work,
    called,
    evaluated,
    history_of,
    make_rows,
    own_user_keys,
)
from palate.learning.personal import PersonalModel
from palate.records import Choice, Scorer, Settings, info_of, normal_form
from palate.records.arguments import checked, listed
from palate.runs import SUMMARY, Manifest, with_holm
from palate.scorers.personal import Personal
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec
from palate.uses.learning_curve_points import (
    CurveSummary,
    Groups,
    Learner,
    LearningCurve,
    Scored,
    Shots,
    Slates,
)
from palate.uses.result import Cell, CellRow, ValueColumn, ValueTable
from palate.uses.units import Doubles

SHOTS = (0, 1, 2, 5, 10, 20, 50)
REPEATS = 5
FIXED = 20
"""Users with at least this many choices are on every curve; larger numbers have fewer users."""
MAJORITY = "majority of the others"
EMPTY = np.zeros(0)
Baselines = Raters | Mapping[str, Any]
"""Scorers, or by name the credit of each pair."""


@checked
def learning_curve(
    benchmark: Data,
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
    every = (*sorted({*shots}), *(("all",) if whole else ()))
    plan = _Plan(scorers, pairs, able, credits, every, repeats, fixed, work)
    folder = None
    if work.root is not None:
        manifest = plan.manifest()
        folder = manifest.folder(work.root)
        manifest.write(folder)
        if (folder / SUMMARY).is_file():
            return LearningCurve.read(folder)
    curve = LearningCurve(*plan.measured(progress), folder)
    if folder is not None:
        curve.save()
    return curve


@dataclass(frozen=True)
class _Plan:
    """All that the points of a curve depend on."""

    scorers: Mapping[str, HasStates]
    pairs: Dataset
    choices: Mapping[str, Sequence[Choice]]
    credits: Mapping[str, Doubles]
    """Of each pair, by baseline."""
    shots: tuple[Shots, ...]
    repeats: int
    fixed: int
    work: Work

    @cached_property
    def fingerprints(self) -> dict[str, str]:
        """Of each model."""
        return {
            name: info_of(cast(Scorer, scorer), name).fingerprint
            for name, scorer in self.scorers.items()
        }

    def manifest(self) -> Manifest:
        """Return the manifest of the result."""
        baselines = {name: digest(credit.tobytes().hex()) for name, credit in self.credits.items()}
        identity = {
            "benchmark": self.pairs.name,
            "name": " ".join(self.scorers),
            "rows": self.pairs.content_hash,
            "history": self.pairs.history_hash,
            "models": self.fingerprints,
            "baselines": baselines,
            "drawn": [self.shots, self.repeats, self.fixed],
            "seed": self.work.settings.seed,
            "dtype": self.work.settings.dtype,
        }
        return Manifest.of(LearningCurve.kind, identity, inputs={**self.fingerprints, **baselines})

    def measured(self, progress: Progress | None) -> tuple[CurveSummary, tuple[CellRow, ...]]:
        """Return all points, and the credits of every row."""
        pairs, seed = self.pairs, self.work.settings.seed
        judged = np.array([k for k, pair in enumerate(pairs.pairs) if pair.user_id in self.choices])
        some = replace(pairs, rows=tuple(pairs.pairs[k] for k in judged))
        shown = self.work.context(NOTHING)
        slates = Slates(make_rows(some, shown, seed=seed, user_keys=own_user_keys))
        learners = {
            name: Learner(name, scorer, slates, self.choices, seed)
            for name, scorer in self.scorers.items()
        }
        usable = np.isfinite([learner.margins(0) for learner in learners.values()]).all(axis=0)
        if not usable.any():
            raise UsageError(f"{pairs.name}: every pair has a response too long for a model")
        rows = np.flatnonzero(usable)
        groups = Groups(pairs, judged[rows], self.choices, self.scorers, seed)
        prints = {name: (mark,) for name, mark in self.fingerprints.items()}
        number = {name: k for k, name in enumerate({**self.credits, **self.scorers})}
        table = ValueTable(replace(pairs, rows=tuple(pairs.pairs[k] for k in judged[rows])))
        for name, credit in self.credits.items():
            setting = "nothing of the user"
            column = ValueColumn(cell=number[name], measure="accuracy", setting=setting)
            table.add(column, credit[judged[rows]])
        points = {
            name: list(groups.baseline(name, values))
            for name, values in zip(self.credits, table.values, strict=True)
        }
        points |= {name: [] for name in self.scorers}
        references = references_of(self.scorers)
        measured: dict[tuple[str, Shots], Scored] = {}
        for name in sorted(self.scorers, key=lambda name: name in references):  # references first
            base = learners[name].at(0, 1, rows)
            for k in self.shots:
                scored = base if k == 0 else learners[name].at(k, self.repeats, rows)
                measured[name, k] = scored._replace(margins=EMPTY, confidence=EMPTY)
                setting = f"{k} choices"
                column = ValueColumn(cell=number[name], measure="accuracy", setting=setting)
                table.add(column, scored.values)
                reference = measured.get((references.get(name, ""), k))
                points[name] += groups.points(name, k, scored, base, reference)
                if progress is not None:
                    progress(len(measured), len(self.scorers) * len(self.shots))
        every = [point for of_model in points.values() for point in of_model]
        corrected = with_holm(
            every,
            [point.p_gain_over_reference for point in every],
            [(point.group, point.shots) for point in every],
            into="p_gain_over_reference_holm",
        )
        summary = CurveSummary(
            benchmark=pairs.name,
            points=tuple(corrected),
            references=references,
            pairs_left_out=len(judged) - len(rows),
            choices_left_out=max(learner.choices_left_out for learner in learners.values()),
            cells=tuple(
                Cell(scorer=name, context=NOTHING, fingerprints=prints.get(name, ()))
                for name in number
            ),
            columns=tuple(table.columns),
        )
        return summary, table.rows()


def _credits(
    baselines: Baselines, pairs: Dataset, work: Work, progress: Progress | None
) -> dict[str, Doubles]:
    if isinstance(baselines, Mapping):
        return {name: np.asarray(credit, np.float64) for name, credit in baselines.items()}
    names = work.scorers(baselines)
    for spec in names:
        if info_of(work.scorer(spec), spec).needs_user:
            raise UsageError(f"baseline {spec}: it reads users' choices; name its folder with -m")
    return {
        spec: evaluated(spec, pairs, NOTHING, work, progress=progress).verdicts.values
        for spec in names
    }


def majority_of_others(pairs: Dataset) -> NDArray[np.float64]:
    """Return each pair's credit (n): 1 where most other users chose the same, ½ for a tie, else 0.

    NaN where nobody else was asked. It has read the other users' answers to the very pair, which
    no reward model has: a yardstick, no scorer. On mirrored couples alone it means nothing,
    since leaving out the user's own vote tips every close majority against it.

    >>> from palate.records import PreferencePair
    >>> votes = [("ann", "a", "b"), ("bob", "a", "b"), ("cy", "b", "a")]
    >>> rows = [
    ...     PreferencePair(id=who, user_id=who, text="?", chosen=c, rejected=r)
    ...     for who, c, r in votes
    ... ]
    >>> majority_of_others(Dataset("votes", tuple(rows))).tolist()
    [0.5, 0.5, 0.0]
    """
    users = [p.user_id for p in pairs.pairs]
    cast = [
        (p.normal_key, *map(normal_form, (p.gold.narrative or "", p.chosen, p.rejected)))
        for p in pairs.pairs
    ]
    by_all, by_user = Counter(cast), Counter(zip(users, cast, strict=True))
    credits = np.empty(len(cast))
    for k, (user, vote) in enumerate(zip(users, cast, strict=True)):
        question, narrative, chosen, rejected = vote
        opposite = question, narrative, rejected, chosen
        alike, unlike = (by_all[v] - by_user[user, v] for v in (vote, opposite))
        credits[k] = (np.sign(alike - unlike) + 1) / 2 if alike + unlike else np.nan
    return credits


Model = str | Path | PersonalModel | HasStates
Models = Model | Sequence[Model] | Mapping[str, Model]
REFERENCE = "bradley-terry"


def build_models(models: Models, work: Work) -> dict[str, HasStates]:
    """Return a scorer for each model; one given as a folder alone has the folder's name.

    Raises `UsageError` where two have one name, and for what has no state of a user.
    """
    if not isinstance(models, Mapping):
        several = listed(models)
        names = [
            Path(m).absolute().name if isinstance(m, str | Path) else called(m) for m in several
        ]
        models = dict(zip(names, several, strict=True))
        if len(models) < len(several):
            raise UsageError("two models have one folder name; rename one")
    if not models:
        raise UsageError("learning curve: no model; name a folder that palate train made")
    return {name: _build(name, model, work) for name, model in models.items()}


def _build(name: str, model: Model, work: Work) -> HasStates:
    if isinstance(model, PersonalModel):
        return Personal(Spec(kind="personal"), work.session, work.settings, model)
    scorer: object = model
    if isinstance(model, str | Path):
        folder = Path(model).expanduser().absolute()
        spec = Spec(kind="personal", reference=str(folder))
        scorer = work.scorer(str(spec))
    able = isinstance(scorer, Scorer) and info_of(scorer, name).needs_user
    if not able or not isinstance(scorer, HasStates) or scorer.state != "own":
        raise UsageError(f"model {name}: {type(scorer).__name__} does not score by users' states")
    return scorer


def references_of(models: Mapping[str, HasStates]) -> dict[str, str]:
    """Return, by model, the bradley-terry model of the same vectors and the same training data."""
    trained = {
        name: scorer.trained for name, scorer in models.items() if isinstance(scorer, Personal)
    }
    made = {name: (model.meaning, model.facts.get("data")) for name, model in trained.items()}
    plain = {made[name]: name for name in trained if trained[name].model.method == REFERENCE}
    return {name: plain[key] for name, key in made.items() if plain.get(key, name) != name}
