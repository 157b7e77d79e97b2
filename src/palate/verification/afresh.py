"""Some rows of a run scored afresh by what its manifest names."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from palate.benchmarks import Dataset
from palate.errors import UsageError
from palate.evaluation import BoundScorer, Computation, SampledRows, Start, Work, verdict_rows
from palate.records import Settings
from palate.runs import Manifest, Summary, Verdicts
from palate.seeding import unit
from palate.session import Session

FLOAT32 = 1e-4
"""How far numbers of float32 may lie apart on two processors: of 1, or of the margin."""
DEVIATIONS = 6 * math.sqrt(2)
"""Of a margin's measured error: two computations differ by √2 of it, and six are no chance."""


@dataclass(frozen=True)
class Rescoring:
    """How many rows are drawn, by the settings' seed, and what computes."""

    rows: int
    session: Session
    settings: Settings
    start: Start

    def problems(
        self, manifest: Manifest, summary: Summary, verdicts: Verdicts, pairs: Dataset
    ) -> list[tuple[int, str]]:
        """Return the drawn rows, by line, whose numbers are others when they are scored afresh.

        Raises `UsageError` where what the manifest names cannot be built, or is another here.
        """
        identity, spec = manifest.identity, manifest.identity["scorer"]
        settings = {name: identity[name] for name in ("seed", "dtype", "batch_tokens")}
        work = Work.of(self.session, self.settings.model_copy(update=settings))
        job = BoundScorer.of(spec, pairs, identity["context"], work)
        ids, seed = verdicts.ids, self.settings.seed
        shuffled = sorted(range(len(ids)), key=lambda k: unit("verify", seed, ids[k]))
        drawn = sorted(shuffled[: self.rows])
        computation = job.computation(SampledRows(job.rows, drawn))
        _refuse_another(computation, manifest)
        allowed = _tolerance(computation, manifest, summary)
        passes = computation.run(None, None, work.start(f"{spec} afresh"))
        first, second = verdicts.take(drawn), Verdicts(verdict_rows(job, passes, drawn))
        a, b = first.votes, second.votes
        near = np.abs(a - b) <= allowed * (np.fmax(1, np.abs(a)) if allowed == FLOAT32 else 1)
        differ = ~(near | (np.isnan(a) & np.isnan(b)))
        first_of = differ.argmax(axis=1)  # of a row's orders, draws or its only number
        return [
            (drawn[k] + 1, f"row {first.ids[k]!r}: {a[k, n]:.6g}; scored afresh {b[k, n]:.6g}")
            for k, n in enumerate(first_of.tolist())
            if differ[k, n]
        ]


def _refuse_another(computation: Computation, manifest: Manifest) -> None:
    # A device of another kind is no other scorer.
    if list(computation.fingerprints) == list(manifest.identity["fingerprints"]):
        return
    both = zip(manifest.details, computation.details, strict=False)
    names = {name for old, new in both for name in {*old, *new} if old.get(name) != new.get(name)}
    if names != {"device"}:
        what = ", ".join(sorted(names)) or "fingerprint"
        raise UsageError(f"the scorer that is built here has another {what}")


def _tolerance(computation: Computation, manifest: Manifest, summary: Summary) -> float:
    """Return how far a number may be off: not at all, where no model is read."""
    if not computation.models:
        return 0.0
    if summary.noise is not None and summary.noise.sd:
        return DEVIATIONS * summary.noise.sd
    if manifest.identity["dtype"] in (None, "float32"):
        return FLOAT32
    raise UsageError("half precision whose noise was not measured (palate evaluate --noise-rows)")
