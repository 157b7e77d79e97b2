"""Do better rewards make better policies? Rank agreement over scorers at every weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palate.contexts import NOTHING
from palate.metrics.policy import READINGS
from palate.metrics.ranks import kendall_agreement
from palate.metrics.ranks.agreement import LEAST_SCORERS
from palate.uses.policy_accuracy.curves import CellValues, written
from palate.uses.policy_accuracy.result import PolicyAgreement, PolicyCell
from palate.uses.units import Doubles, PairUnits

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
    bare = {
        cell.scorer: values
        for cell, values in zip(cells, values_of_cells, strict=True)
        if cell.context == NOTHING
    }
    counted = [
        values
        for cell, values in zip(cells, values_of_cells, strict=True)
        if not cell.oracle
        and not (
            cell.context != NOTHING and cell.scorer in bare and _same(values, bare[cell.scorer])
        )
    ]
    if not counted:
        return 0, ()
    shared = np.asarray(~np.isnan([values.reward for values in counted]).any(axis=0))
    n = int(shared.sum())
    if len(counted) < LEAST_SCORERS or not n:
        return n, ()
    rewards = [_accuracy(units, shared, values.reward) for values in counted]
    over_scorers = []
    for k, reading in enumerate(READINGS):
        for at, weight in enumerate((*map(written, weights), "chosen")):
            policies = [_accuracy(units, shared, values.values[:, k, at]) for values in counted]
            over_scorers.append(
                PolicyAgreement(
                    reading=reading,
                    weight=weight,
                    agreement=kendall_agreement(rewards, policies, seed=seed),
                )
            )
    return n, tuple(over_scorers)


def _accuracy(units: PairUnits, shared: NDArray[np.bool_], values: Doubles) -> float:
    accuracy = units.accuracy(np.where(shared, values, np.nan)).value
    assert accuracy is not None
    return accuracy


def _same(shown: CellValues, bare: CellValues) -> bool:
    size = 1 + float(np.nanmax(np.abs(bare.margins), initial=0.0))
    apart = ROUNDED * size
    return bool(np.allclose(shown.margins, bare.margins, rtol=0.0, atol=apart, equal_nan=True))
