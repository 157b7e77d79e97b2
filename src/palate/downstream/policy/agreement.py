"""Do better rewards make better policies? Rank agreement over scorers at every weight."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palate.downstream.policy.curves import CellValues, PairUnits, written
from palate.downstream.policy.result import PolicyAgreement, PolicyCell
from palate.metrics.estimates import ROUNDING
from palate.metrics.policy import READINGS
from palate.metrics.ranks import kendall_agreement
from palate.metrics.ranks.agreement import LEAST_SCORERS


def agreements(
    cells: Sequence[PolicyCell],
    found: Sequence[CellValues],
    units: PairUnits,
    weights: Sequence[float],
    seed: int,
) -> tuple[int, tuple[PolicyAgreement, ...]]:
    """Return the rows that all scorers scored, and τ of reward and policy accuracy over scorers.

    A scorer here is a scorer under one context, as in predictive validity: oracles do not count,
    and one that a context does not move counts once.
    """
    bare = {cell.scorer: own for cell, own in zip(cells, found, strict=True)
            if cell.context == "none"}  # fmt: skip
    counted = [
        own for cell, own in zip(cells, found, strict=True)
        if not cell.oracle and not (
            cell.context != "none" and cell.scorer in bare and _same(own, bare[cell.scorer])
        )
    ]  # fmt: skip
    if not counted:
        return 0, ()
    shared = ~np.isnan([own.reward for own in counted]).any(axis=0)
    n = int(shared.sum())
    if len(counted) < LEAST_SCORERS or not n:
        return n, ()
    rewards = [units.accuracy(np.where(shared, own.reward, np.nan)).value for own in counted]
    made = []
    for k, reading in enumerate(READINGS):
        for at, weight in enumerate((*map(written, weights), "chosen")):
            policies = [
                units.accuracy(np.where(shared, own.values[:, k, at], np.nan)).value
                for own in counted
            ]
            made.append(PolicyAgreement(
                reading=reading, weight=weight,
                agreement=kendall_agreement(rewards, policies, seed=seed),
            ))  # fmt: skip
    return n, tuple(made)


def _same(one: CellValues, other: CellValues) -> bool:
    return bool(np.allclose(one.margins, other.margins, rtol=0.0, equal_nan=True,
                            atol=ROUNDING * (1 + np.nanmax(np.abs(other.margins), initial=0.0))))  # fmt: skip
