"""Do better rewards make better policies? Rank agreement over scorers at every weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.downstream.policy.columns import Doubles
from palate.downstream.policy.curves import CellValues, PairUnits, written
from palate.downstream.policy.result import PolicyAgreement, PolicyCell
from palate.metrics.policy import READINGS
from palate.metrics.ranks import kendall_agreement
from palate.metrics.ranks.agreement import LEAST_SCORERS

ROUNDED = 1e-9
"""Of the largest margin: what is closer was moved by rounding alone."""


def agreements(
    cells: Sequence[PolicyCell],
    values_of_cells: Sequence[CellValues],
    units: PairUnits,
    weights: Sequence[float],
    seed: int,
) -> tuple[int, tuple[PolicyAgreement, ...]]:
    """Return the rows that all scorers scored, and τ of reward and policy accuracy over scorers.

    A scorer here is a scorer under one context, as in predictive validity: oracles do not count,
    and one that a context does not move counts once.
    """
    bare = {cell.scorer: own for cell, own in zip(cells, values_of_cells, strict=True)
            if cell.context == "none"}  # fmt: skip
    counted = [
        own for cell, own in zip(cells, values_of_cells, strict=True)
        if not cell.oracle and not (
            cell.context != "none" and cell.scorer in bare and _same(own, bare[cell.scorer])
        )
    ]  # fmt: skip
    if not counted:
        return 0, ()
    shared = np.asarray(~np.isnan([own.reward for own in counted]).any(axis=0))
    n = int(shared.sum())
    if len(counted) < LEAST_SCORERS or not n:
        return n, ()
    rewards = [_accuracy(units, shared, own.reward) for own in counted]
    made = []
    for k, reading in enumerate(READINGS):
        for at, weight in enumerate((*map(written, weights), "chosen")):
            policies = [_accuracy(units, shared, own.values[:, k, at]) for own in counted]
            made.append(PolicyAgreement(
                reading=reading, weight=weight,
                agreement=kendall_agreement(rewards, policies, seed=seed),
            ))  # fmt: skip
    return n, tuple(made)


def _accuracy(units: PairUnits, shared: NDArray[np.bool_], values: Doubles) -> float:
    values_of_cells = units.accuracy(np.where(shared, values, np.nan)).value
    assert values_of_cells is not None
    return values_of_cells


def _same(one: CellValues, other: CellValues) -> bool:
    size = 1 + float(np.nanmax(np.abs(other.margins), initial=0.0))
    apart = ROUNDED * size
    return bool(np.allclose(one.margins, other.margins, rtol=0.0, atol=apart, equal_nan=True))
