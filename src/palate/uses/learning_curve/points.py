"""One model at one number of choices, and all of them together as a result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from palate.metrics import Estimate
from palate.records import Record
from palate.uses.result import Cell, CellResult, CellSummary

Shots = int | Literal["all"]
"""Choices per user; `all` where every choice a user has is used."""


class Point(Record):
    """One model at one number of choices on one group of users."""

    model: str
    group: str
    """`all`, or `trained` and `held_out` where a model was trained on some of the users only."""
    shots: Shots | None
    """None for a baseline, which is told nothing of the user."""
    n_users: int
    n_pairs: int
    accuracy: Estimate
    """On every pair of the group's users, each repeat's outcome averaged first."""
    mirrored_accuracy: Estimate | None
    """On couples of two such users; its p is of 0.5, what any model blind to the user gets."""
    concordance: Estimate | None = None
    residual_accuracy: Estimate | None = None
    """On couples, of the score minus the prior's: what this user likes more than people do."""
    gain: Estimate | None = None
    """Over 0 choices, paired."""
    p_gain: float | None = None
    """Of no gain: the t of the interval, or sign flips by user where no question is shared."""
    gain_over_reference: Estimate | None = None
    """Over the bradley-terry model of the same vectors, paired."""
    p_gain_over_reference: float | None = None
    """Of no such gain, likewise."""
    p_gain_over_reference_holm: float | None = None
    """Holm-corrected over the models of one group and number of choices."""


class CurveSummary(CellSummary[Cell]):
    """The points of every model, and what could not be used; a cell is a model or a baseline."""

    points: tuple[Point, ...]
    references: Mapping[str, str]
    """By model, the one that its gain over a reference is taken over."""
    pairs_left_out: int
    """Pairs with a response too long for a model; left out of every model's points."""
    choices_left_out: int
    """Earlier choices with such a response, of the model that has most of them."""


class LearningCurve(CellResult[CurveSummary]):
    """The learning curves of one or several models on one benchmark.

    A column is a row's credit by one model at one number of choices: 1 chosen, ½ tie, 0 rejected,
    mean over draws.
    """

    kind: ClassVar[str] = "learning-curve"
    content_type = CurveSummary
    predicted = False

    @property
    def points(self) -> tuple[Point, ...]:
        """The points of every model."""
        return self.summary.points
