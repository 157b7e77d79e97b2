"""Results of uses by one measure, joined where they rest on the same answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from palate.errors import ComparisonError
from palate.metrics.estimates import ROUNDING
from palate.uses import Downstream, DownstreamQuality


def joined(results: Sequence[Downstream]) -> list[Downstream]:
    """Return what several results say of the same answers and measure as one.

    A scorer that is there twice with the same picks counts once. Raises `ComparisonError` where
    its picks differ, and where answers were left without score or quality: each result then rests
    on other answers.
    """
    by: dict[tuple[DownstreamQuality, str], Downstream] = {}
    for result in (result for result in results if result.values):
        first = by.setdefault((result.of, result.samples), result)
        if first is result:
            continue
        first_folder, other = (next(iter(side.origins.values())).where for side in (first, result))
        if not (first.complete and result.complete) or first.rows != result.rows:
            raise ComparisonError(
                f"validity: {first_folder} and {other} rest on different answers of "
                f"{result.of.policy}, since some have no score; name one of them, or run "
                f"{result.kind} with all scorers"
            )
        for scorer, context in first.values.keys() & result.values.keys():
            apart = first.values[scorer, context] - result.values[scorer, context]
            if bool(np.any(np.abs(apart) > ROUNDING)):
                raise ComparisonError(
                    f"validity: {scorer} under {context} picks otherwise in {first_folder} than "
                    f"in {other}; name one of them"
                )
        by[result.of, result.samples] = replace(
            first,
            values={**first.values, **result.values},
            origins={**first.origins, **result.origins},
        )
    return list(by.values())
