"""From columns to curves: accuracies over rows or mirrored couples, and the weight chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Dataset
from palate.metrics.arrays import deal
from palate.metrics.policy import INFINITE, READINGS, Reading, best_weight, cross_fitted
from palate.runs import ReportedEstimate, with_holm
from palate.scorers import is_baseline
from palate.uses.policy_accuracy.pass_scores import PassScores
from palate.uses.policy_accuracy.result import CurvePoint, PolicyCell, ReadingCurve, Weight
from palate.uses.units import Doubles, PairUnits


def folds_of(pairs: Dataset) -> NDArray[np.int64]:
    """Return each row's fold; the rows of a question are in one."""
    names = [row.key for row in pairs.rows]
    distinct = sorted(set(names))
    return deal(distinct, 0)[np.searchsorted(distinct, names)]


class CellValues(NamedTuple):
    """What one cell says of every evaluated row; NaN in all where it does not count."""

    reward: Doubles
    margins: Doubles
    """Of the reward, by row and draw."""
    base: Mapping[Reading, Doubles]
    values: Doubles
    """Rows × readings × (weights and the chosen one)."""
    chosen: Mapping[Reading, tuple[Weight, ...]]


def cell_values(
    columns: PassScores,
    units: PairUnits,
    folds: NDArray[np.int64],
    weights: Sequence[float],
    unit: float,
    choosing: PassScores | None,
) -> CellValues:
    """Return the values of a cell at every weight, and at the weight chosen on other rows.

    `choosing` holds the rows that choose; without it every fold of whole questions is given the
    weight that is best on the others.
    """
    counts = units.complete(~np.isnan(columns.values(0, "sum") + columns.reward))
    chosen: dict[Reading, tuple[Weight, ...]] = {}
    listed, base = [], {}
    for reading in READINGS:
        values = _at(columns, weights, unit, reading, counts)
        if choosing is None:
            picked = cross_fitted(values, folds, weights)
        else:
            means = np.nanmean(_at(choosing, weights, unit, reading), axis=0)
            picked = np.full(len(values), best_weight(means.tolist(), weights))
        at_chosen = np.take_along_axis(values, picked[:, None], axis=1)
        listed.append(np.concatenate([values, at_chosen], axis=1))
        named = sorted({weights[k] for k in picked[counts].tolist()})
        chosen[reading] = tuple(map(written, named))
        plain: Reading = "sum" if reading == "ratio" else reading
        base[reading] = np.where(counts, columns.values(0, plain), np.nan)
    reward = np.where(counts, columns.reward, np.nan)
    return CellValues(reward, columns.reward_margins, base, np.stack(listed, axis=1), chosen)


def reading_curves(
    cell: CellValues, units: PairUnits, weights: Sequence[float]
) -> tuple[ReadingCurve, ...]:
    """Return the curve of each reading."""
    curves = []
    for k, reading in enumerate(READINGS):
        columns = cell.values[:, k].T
        every = [ReportedEstimate.of(units.accuracy(values)) for values in columns]
        gain = units.gain(columns[-1], cell.base[reading])
        curves.append(
            ReadingCurve(
                reading=reading,
                base=ReportedEstimate.of(units.accuracy(cell.base[reading])),
                points=tuple(
                    CurvePoint(weight=written(weight), accuracy=point)
                    for weight, point in zip(weights, every, strict=False)
                ),
                chosen=cell.chosen[reading],
                accuracy=every[-1],
                gain=ReportedEstimate.of(gain),
                gain_p=gain.p,
            )
        )
    return tuple(curves)


def corrected(cells: Sequence[PolicyCell]) -> list[PolicyCell]:
    """Put Holm's p to each gain, over the cells of one reading; baselines and oracles apart."""
    curves = [(k, curve) for k, cell in enumerate(cells) for curve in cell.readings]
    apart = [cell.oracle or is_baseline(cell.scorer) for cell in cells]
    families = [None if apart[k] else curve.reading for k, curve in curves]
    every = [curve for _, curve in curves]
    corrected = iter(with_holm(every, [it.gain_p for it in every], families, into="gain_p_holm"))
    return [
        cell.model_copy(update={"readings": tuple(islice(corrected, len(cell.readings)))})
        for cell in cells
    ]


def written(weight: float) -> Weight:
    """Return a weight as results hold it; JSON has no infinity."""
    return "inf" if weight == INFINITE else weight


def _at(
    columns: PassScores,
    weights: Sequence[float],
    unit: float,
    reading: Reading,
    counts: NDArray[np.bool_] | None = None,
) -> Doubles:
    values = np.stack([columns.values(weight * unit, reading) for weight in weights], axis=1)
    return values if counts is None else np.where(counts[:, None], values, np.nan)
