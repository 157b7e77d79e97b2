"""The gap: how much better the chosen answer meets the user's rubric than the rejected one.

In a mirrored couple it is the sum over both rows, [v_A(x) − v_A(y)] + [v_B(y) − v_B(x)]: what is
good for anybody cancels. It is held against the same sum under the rubrics of third users C and D,
in the places of A and B, or against a number.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from math import ceil, nan
from typing import NamedTuple

import numpy as np

from palate.answers import Sample, Samples
from palate.benchmarks import Dataset
from palate.construction.audit_records import GapLimit
from palate.construction.text_checks import Faults
from palate.errors import BenchmarkError, UsageError
from palate.evaluation import Work
from palate.metrics.estimates import ROUNDING
from palate.quality import QualityMetric, build_quality, rate_samples
from palate.records import PreferencePair, third_users
from palate.seeding import rng
from palate.uses.units import Doubles

NULL = "null:"
NULL_GAPS = 200
"""Gaps under third users' rubrics that a quantile is of, at least; a larger set draws once."""
Units = tuple[tuple[int, ...], ...]


class Gaps(NamedTuple):
    """Adherence of all answers, and the gap of each unit: a couple, or a row in no couple."""

    own_ratings: Doubles
    """(rows × 2): of chosen and rejected to the user's rubric; NaN without rubric or rating."""
    third_ratings: Doubles
    """(rows × draws × 2): to third users' rubrics; NaN where there are no more."""
    units: Units
    """Positions of the rows of each unit that has rubrics."""
    gaps: Doubles
    """Of each unit; NaN where a rating is missing."""
    null: dict[int, Doubles]
    """By the rows of a unit, 2 or 1: the gaps under third users' rubrics."""
    thresholds: dict[int, float | None]
    """By the rows of a unit: what its gap must be above; None where the null is empty."""
    reasons: dict[str, int]
    """Why ratings are missing, in number."""

    @property
    def limits(self) -> tuple[GapLimit, ...]:
        """What the gaps were held against, of couples and of rows."""
        return tuple(
            GapLimit(
                of="couples" if size == 2 else "rows",
                n=len(gaps := self.gaps[[len(unit) == size for unit in self.units]]),
                n_above=0 if limit is None else int((gaps > limit + ROUNDING).sum()),
                limit=limit,
                n_null=len(self.null[size]),
            )
            for size, limit in self.thresholds.items()
        )


def gap_faults(
    pairs: Dataset, adherence: str | QualityMetric, limit: str, work: Work
) -> tuple[Faults, Gaps]:
    """Say where a gap, or that of a row's couple, is not above the limit, or cannot be rated.

    A row without what the measure reads is not checked, and its partner stands alone.

    Raises:
        UsageError: where the limit cannot be read.
        BenchmarkError: where no row has what the measure reads.
        EndpointError: where an endpoint did not answer; what came is kept.
    """
    read_limit(limit)
    measure = build_quality(adherence, work.session, work.settings)
    gaps = _gaps(measure, pairs, limit, work)
    faults: list[list[str] | None] = [None] * len(pairs.rows)
    for unit, gap in zip(gaps.units, gaps.gaps.tolist(), strict=True):
        above = gaps.thresholds[len(unit)]
        if above is not None:
            low = f"{('gap', 'couple gap')[len(unit) - 1]} {gap:.3f} is not above {above:.3f}"
            fault = f"unrated by {measure.spec}" if np.isnan(gap) else low
            for k in unit:
                faults[k] = [] if gap > above + ROUNDING else [fault]
    return faults, gaps


def _gaps(measure: QualityMetric, pairs: Dataset, limit: str, work: Work) -> Gaps:
    readable = {k for k, pair in enumerate(pairs.pairs) if _can_rate(measure, pair)}
    if not readable:
        measure.check(pairs.rows)
    couples = [couple for couple in pairs.couples if readable.issuperset(couple)]
    units: Units = tuple(sorted([*couples, *((k,) for k in readable.difference(*couples))]))
    sizes = Counter(map(len, units))
    draws = {s: ceil(NULL_GAPS / n) if limit.startswith(NULL) else 1 for s, n in sizes.items()}
    places = [(k, 0, k) for k in sorted(readable)]
    places += _third(pairs, units, draws, work.settings.seed)
    of = [pairs.pairs[k].model_copy(update={"gold": pairs.pairs[g].gold}) for k, _, g in places]
    answers = tuple((Sample(pair.chosen), Sample(pair.rejected)) for pair in of)
    rated = rate_samples(
        measure,
        Samples(pairs.name, tuple(pair.id for pair in of), answers),
        replace(pairs, rows=tuple(of)),
        work,
    )
    # Adherence to each row's own rubric, then to that of each draw.
    values = np.full((len(pairs.rows), 1 + max(draws.values(), default=0), 2), nan)
    for (k, draw, _), of_row in zip(places, rated.values, strict=True):
        values[k, draw] = of_row
    less = values[..., 0] - values[..., 1]
    null = {}
    for size in draws:
        sums = less[[unit for unit in units if len(unit) == size], 1:].sum(axis=1)
        null[size] = sums[~np.isnan(sums)]
    return Gaps(
        own_ratings=values[:, 0],
        third_ratings=values[:, 1:],
        units=units,
        gaps=np.array([less[list(unit), 0].sum() for unit in units]),
        null=null,
        thresholds={size: read_limit(limit, of_size) for size, of_size in null.items()},
        reasons=rated.reasons,
    )


def _third(
    pairs: Dataset, units: Units, draws: dict[int, int], seed: int
) -> Iterator[tuple[int, int, int]]:
    # Yields (row, draw from 1, row whose rubric it gets): of another user for each row of a unit.
    rubrics: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for k in (k for unit in units for k in unit):
        rubrics[pairs.rows[k].subset][pairs.rows[k].user_id].append(k)
    pools = {subset: sorted(users) for subset, users in rubrics.items()}
    for unit in units:
        size, subset = len(unit), pairs.rows[unit[0]].subset
        rows = {pairs.rows[k].id: k for k in unit}
        ids, users = sorted(rows), {pairs.rows[k].user_id for k in unit}
        third = third_users(pools[subset], users, size * draws[size], "gap", seed, *ids)
        for n, user in enumerate(third[: len(third) // size * size]):
            of_user = rubrics[subset][user]
            rubric = of_user[rng("gap", seed, *ids, user).integers(len(of_user))]
            yield rows[ids[n % size]], 1 + n // size, rubric


def _can_rate(measure: QualityMetric, pair: PreferencePair) -> bool:
    try:
        measure.check([pair])
    except BenchmarkError:
        return False
    return True


def read_limit(text: str, null: Doubles | tuple[()] = ()) -> float | None:
    """Return what a gap must be above: a number, or a quantile of a null (None of an empty one).

    Raises `UsageError` for a text that is neither.
    """
    try:
        value = float(text.removeprefix(NULL))
    except ValueError:
        value = nan
    if not np.isfinite(value) or (text.startswith(NULL) and not 0 < value < 1):
        raise UsageError(f"--gap {text}: expected a number, or null:Q with Q between 0 and 1")
    if not text.startswith(NULL):
        return value
    return float(np.quantile(null, value)) if len(null) else None
