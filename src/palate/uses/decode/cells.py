"""Guides under contexts: what each is shown of every row's user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from palate.answers import Samples
from palate.answers.policies import GuideInput
from palate.answers.scores import SampleScores, plan_cells
from palate.answers.scores.combine_passes import NOTHING_SHOWN
from palate.benchmarks import Dataset
from palate.errors import UsageError
from palate.evaluation import BoundScorer, HasStates, Work
from palate.quality.metric_base import NAMED
from palate.records import NO_STRANGER, Judge, Scorer, Slate, user_key
from palate.scorers import ScorerInContext
from palate.uses.decode.oracle import KIND, build_oracle


@dataclass(frozen=True)
class PlannedGuide:
    """One scorer under one context."""

    scorer: str | Scorer
    """The scorer's spec as it was given, or what rates by gold."""
    job: BoundScorer

    @property
    def key(self) -> ScorerInContext:
        """Canonical specs of scorer and context."""
        return ScorerInContext(self.job.spec, self.job.context.spec)

    @cached_property
    def slates(self) -> tuple[Slate | str, ...]:
        """What the guide is given of each row; or why the row is left out."""
        rows = self.job.rows
        rows.prepare()
        given: list[Slate | str] = []
        for k in range(len(rows)):
            slate = rows.slate(k)
            if rows.no_stranger[k]:
                given.append(NO_STRANGER)
            elif not (slate.shown or self.job.context.empty):
                given.append(NOTHING_SHOWN)
            else:
                given.append(slate.replace(candidates=()))
        return tuple(given)

    @property
    def left_out(self) -> dict[str, int]:
        """Why rows are left out."""
        return dict(Counter(reason for reason in self.slates if isinstance(reason, str)))

    @cached_property
    def there(self) -> NDArray[np.bool_]:
        """Which rows are guided."""
        return np.array([isinstance(slate, Slate) for slate in self.slates])

    def inputs(self, thresholds: Sequence[float] | None = None) -> list[GuideInput | None]:
        """Return what the guide reads of each row, with its threshold where there is one."""
        return [
            None
            if isinstance(slate, str)
            else GuideInput(slate, None if thresholds is None else thresholds[k])
            for k, slate in enumerate(self.slates)
        ]

    def check(self) -> None:
        """Raise `UsageError` for a judge, or for users without a text or a state to guide by."""
        spec, context = self.key
        if isinstance(self.job.scorer, Judge) or self.job.info.pairs_only:
            raise UsageError(f"{spec} compares two answers; a guide must rate a single one")
        rows, questions = self.job.rows, self.job.pairs.rows
        silent = [
            questions[k].user_id
            for k, slate in enumerate(self.slates)
            if slate == NOTHING_SHOWN and not rows.own_words[k]
        ]
        _refuse(silent, f"nothing that {context} could show")
        scorer = self.job.scorer
        if isinstance(scorer, HasStates) and scorer.state == "own":
            known = set(scorer.known)
            _refuse(
                [row.user_id for row in questions if user_key(row.user_id) not in known],
                f"no state in {spec}",
            )
        if not self.there.any():
            why = next(iter(self.left_out))
            raise UsageError(f"{spec} · {context}: no row can be guided ({why})")


def _refuse(users: Sequence[str], lack: str) -> None:
    if users:
        names = list(dict.fromkeys(users))
        listed = ", ".join([*names[:NAMED], *(["…"] if len(names) > NAMED else [])])
        raise UsageError(
            f"decode: {len(names)} users have {lack} ({listed}); leave their rows out, or choose "
            "another guide"
        )


def guide_cells(
    scorers: Sequence[str],
    contexts: Sequence[str],
    pairs: Dataset,
    work: Work,
) -> list[PlannedGuide]:
    """Return the cells, each checked, oracles first and shown nothing.

    Raises `UsageError` for one that cannot guide.
    """
    oracles = [
        build_oracle(text, pairs, work.session, work.settings)
        for text in dict.fromkeys(scorers)
        if text.startswith(KIND)
    ]
    named = [text for text in scorers if not text.startswith(KIND)]
    planned: list[tuple[str | Scorer, str]] = [(oracle, "none") for oracle in oracles]
    if named:
        planned += plan_cells(named, contexts, pairs, work, "decode")
    cells: dict[ScorerInContext, PlannedGuide] = {}
    for scorer, context in planned:
        name = getattr(scorer, "spec", None)
        job = BoundScorer.of(scorer, pairs, context, work, name=name)
        cell = PlannedGuide(scorer, job)
        if cell.key not in cells:  # stranger:2 and profile:2?of=stranger are one
            cell.check()
            cells[cell.key] = cell
    return list(cells.values())


def rewards(scores: SampleScores, samples: Samples) -> NDArray[np.float64]:
    """Return the guide's rewards of answers (rows × N); NaN for an empty one, or without a score.

    An empty answer's score only says that it is below the others of its row.
    """
    empty = [[not sample.text.strip() for sample in of_row] for of_row in samples.of_row]
    return np.where(np.array(empty), np.nan, scores.values)


def thresholds(
    values: NDArray[np.float64], questions: Sequence[str], quantile: float
) -> tuple[list[float], float]:
    """Return each row's threshold, and the standard deviation of all rewards.

    A threshold is the quantile of the rewards (rows × N) of unguided answers to other questions, so
    that no answer to a question decides about itself.

    Raises `UsageError` where there is no other question, or where all rewards are equal.

    >>> thresholds(np.array([[0.0, 1.0], [2.0, 4.0]]), ["a", "b"], 0.5)[0]
    [3.0, 0.5]
    """
    of = np.array(questions)
    by_question: dict[str, float] = {}
    for question in dict.fromkeys(questions):
        elsewhere = values[of != question]
        elsewhere = elsewhere[~np.isnan(elsewhere)]
        if not elsewhere.size:
            raise UsageError(
                "--method rejection: thresholds come from rewards of other questions, and there "
                "are none; give two questions or more, or take blocks"
            )
        by_question[question] = float(np.quantile(elsewhere, quantile))
    scale = float(np.nanstd(values))
    if not scale > 0:
        raise UsageError("--method rejection: the guide rewards all unguided answers alike")
    return [by_question[question] for question in questions], scale
