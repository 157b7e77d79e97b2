"""The quality of every sample: each (row, text) is rated once, and kept."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import PairSet
from palate.downstream.quality.protocol import Answered, Quality, Rated
from palate.downstream.samples import Progress, Samples
from palate.engines.http.cache import ReplyCache
from palate.errors import EndpointError
from palate.models import cache_folder
from palate.records import PreferencePair
from palate.seeding import canonical_json, digest


@dataclass(frozen=True)
class SampleQuality:
    """What one measure makes of the samples."""

    quality: str
    """Canonical spec."""
    surrogate: bool
    values: NDArray[np.float64]
    """rows × N in [0, 1]; NaN where unscored."""
    reasons: dict[str, int]
    """Why samples have no value."""


def rate_samples(
    quality: Quality, samples: Samples, pairs: PairSet, progress: Progress | None = None
) -> SampleQuality:
    """Return the quality of every sample for the user of its row.

    Ratings are kept under `$PALATE_CACHE/quality` as they come, by measure, row and text.

    Raises:
        BenchmarkError: where rows lack what the measure needs.
        EndpointError: where an endpoint did not answer; what came is kept.
    """
    quality.check(pairs.pairs)
    store = ReplyCache(cache_folder() / "quality", "$PALATE_CACHE")
    found: dict[str, Rated] = {}
    places: list[list[str]] = []
    missing: dict[str, Answered] = {}
    for pair, own in zip(pairs.pairs, samples.of_row, strict=True):
        row = digest(quality.fingerprint, _content(pair))
        keys = [digest(row, one.text) for one in own]
        places.append(keys)
        for key, one in zip(keys, own, strict=True):
            if key in found or key in missing:
                continue
            kept = store.get(key)
            if kept is None:
                missing[key] = Answered(pair, one.text)
            else:
                found[key] = Rated.model_validate(json.loads(kept))
    waiting, total = list(missing), len(found) + len(missing)
    outages: list[str] = []
    for k, rated in quality.rate(list(missing.values())) if missing else ():
        found[waiting[k]] = rated
        if rated.outage:
            outages.append(rated.reason or "no answer")
        else:
            text = canonical_json(rated.model_dump(mode="json"))
            store.put(waiting[k], text.encode("utf-8", "surrogatepass"))
        if progress is not None:
            progress(len(found), total)
    if outages:
        raise EndpointError(
            f"{quality.spec}: {len(outages)} of {total} answers were not rated "
            f"({'; '.join(sorted(set(outages)))}); what came is kept, run the same command again"
        )
    rated = [[found[key] for key in keys] for keys in places]
    reasons: dict[str, int] = {}
    for own_rated in rated:
        for one in own_rated:
            if one.value is None:
                reasons[one.reason or "no value"] = reasons.get(one.reason or "no value", 0) + 1
    values = np.array(
        [[np.nan if one.value is None else one.value for one in own] for own in rated], np.float64
    ).reshape(len(samples.rows), samples.n)
    return SampleQuality(quality.spec, quality.surrogate, values, reasons)


def _content(pair: PreferencePair) -> str:
    aspects = [aspect.model_dump(mode="json") for aspect in pair.rubric_aspects]
    return digest(pair.question, pair.narrative, aspects, pair.reference)
