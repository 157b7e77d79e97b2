"""Some rows of a run, or all of them, scored afresh by what its manifest names."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from palate.benchmarks import Dataset
from palate.errors import UsageError
from palate.evaluation import (
    LEAST_ROWS,
    BoundScorer,
    Computation,
    FirstRun,
    RecomputeOptions,
    Start,
    Work,
    recomputed,
    sampled,
    score_undecided,
    summary_of,
    verdict_rows,
)
from palate.metrics.arrays import FloatArray
from palate.metrics.noise import error_sd
from palate.records import Settings
from palate.runs import MANIFEST, ROWS, SUMMARY, Manifest, Noise, Run, Summary, Verdicts
from palate.runs.run import AGAIN, UNDECIDED
from palate.seeding import unit
from palate.session import Session

DEVIATIONS = 6 * math.sqrt(2)
"""Of a margin's error: two computations differ by √2 of it, and six are no chance."""


class Afresh(NamedTuple):
    """What scoring afresh gave."""

    problems: list[str]
    """What is otherwise here, with its file and line."""
    summary: Callable[[Noise | None], Summary] | None = None
    """Makes the summary, with all that only scoring tells; None where some rows were scored."""


@dataclass(frozen=True)
class Rescoring:
    """How many rows are drawn, by the settings' seed, and what computes."""

    rows: int
    session: Session
    settings: Settings
    start: Start

    def score(self, run: Run, manifest: Manifest, pairs: Dataset) -> Afresh:
        """Score the drawn rows afresh; where all are drawn, all that a run holds is made again.

        The error of half precision is measured here, on rows that are scored in float32 beside.
        Raises `UsageError` where what the manifest names cannot be built, or is another here.
        """
        identity, spec = manifest.identity, manifest.identity["scorer"]
        work = Work.of(self.session, self.settings.model_copy(update=manifest.built_with))
        job = BoundScorer.of(spec, pairs, identity["context"], work)
        order = self._drawn(run, pairs, identity)
        whole = len(order) == len(run.verdicts)
        computation = job.computation(job.rows if whole else job.rows.of_pairs(order))
        about = {"rows": pairs.content_hash, **pairs.how_read}
        mine = job.manifest(Run.kind, computation, about)
        refuse_another(manifest, mine)
        progress = work.start(f"{spec} afresh")
        passes = computation.run(None, None, progress)
        here = Verdicts(verdict_rows(job, passes, order))
        twice = RecomputeOptions(max(LEAST_ROWS, len(run.again) if whole and run.again else 0))
        again = recomputed(job, FirstRun(computation, here, None, progress), twice)
        noise, in_float32 = again
        allowed = _allowed(computation, noise, here, in_float32)
        problems = _differing(run, ROWS, run.verdicts, here, allowed)
        if run.again is not None and in_float32 is not None:
            problems += _differing(run, AGAIN, run.again, in_float32, FLOAT32, whole=whole)
        if noise is not None and run.summary.noise is None:
            problems.append(f"{run.folder}/{SUMMARY}: half precision without noise")
        if not whole:
            return Afresh(problems)
        problems += [f"{run.folder}/{MANIFEST}: {what}" for what in other_entries(manifest, mine)]
        if run.undecided is not None:
            rated, _ = score_undecided(job, None, progress)
            there = run.undecided, rated or Verdicts(())
            problems += _differing(run, UNDECIDED, *there, allowed, whole=True)
        return Afresh(
            problems, lambda noise: summary_of(job, computation, run.verdicts, passes, noise)
        )

    def _drawn(self, run: Run, pairs: Dataset, identity: Mapping[str, Any]) -> list[int]:
        ids, seed = run.verdicts.ids, self.settings.seed
        shuffled = sorted(range(len(ids)), key=lambda k: unit("verify", seed, ids[k]))
        half = identity["dtype"] not in (None, "float32")
        measured = sampled(pairs, LEAST_ROWS, identity["seed"]) if half else []
        return sorted({*shuffled[: self.rows], *measured})


class _Allowed(NamedTuple):
    """How far a margin and a score may be off: so much, and so much of 1 or of itself."""

    margin: float
    score: float
    relative: float


EXACTLY, FLOAT32 = _Allowed(0.0, 0.0, 0.0), _Allowed(0.0, 0.0, 1e-4)
"""Numbers of float32 may lie so far apart on two processors."""


def _allowed(
    computation: Computation, noise: Noise | None, here: Verdicts, in_float32: Verdicts | None
) -> _Allowed:
    if not computation.models:
        return EXACTLY
    if noise is None:  # float32, also of embedders that compute in nothing else, and endpoints
        return FLOAT32
    if in_float32 is None or noise.sd is None:
        why = noise.note or "its replies are read as text"
        raise UsageError(f"half precision whose error cannot be measured here: {why}")
    place = {name: k for k, name in enumerate(here.ids)}
    both = here.take([place[name] for name in in_float32.ids]), in_float32
    scores, better = (_numbers(verdicts)[1] for verdicts in both)
    score = error_sd((scores - better).ravel()) or 0.0
    return _Allowed(DEVIATIONS * noise.sd, DEVIATIONS * score, 0.0)


def _numbers(verdicts: Verdicts) -> tuple[FloatArray, FloatArray]:
    """Return each row's margin, or those of its orders, and its two scores; NaN where none."""
    rated = [row.ratings.scores if row.ratings else (None, None) for row in verdicts.rows]
    return verdicts.votes, np.array(rated, dtype=float).reshape(-1, 2)


def _differing(
    run: Run, file: str, there: Verdicts, here: Verdicts, allowed: _Allowed, *, whole: bool = False
) -> list[str]:
    """Return the lines of a file of which a number is another here, or the row none, if `whole`."""
    place = {name: k for k, name in enumerate(here.ids)}
    wrong: dict[int, str] = {}
    for k, name in enumerate(there.ids):
        if name not in place:
            wrong |= {k: "no row that is scored here"} if whole else {}
        elif there.own_words[k] != (words := here.own_words[place[name]]):
            wrong[k] = f"own_words {there.own_words[k]}; here {words}"
    both = zip(_numbers(there), _numbers(here), (allowed.margin, allowed.score), strict=True)
    for old, new, most in both:
        for k, name in enumerate(there.ids):
            other = new[place[name]] if name in place else old[k]
            for a, b in zip_longest(old[k], other, fillvalue=math.nan):
                near = abs(a - b) <= most + allowed.relative * max(1.0, abs(a))
                if not near and not (math.isnan(a) and math.isnan(b)):
                    wrong.setdefault(k, f"{a:.6g}; scored afresh {b:.6g}")
    return [
        f"{run.folder}/{file}:{k + 1}: row {there.ids[k]!r}: {what}"
        for k, what in sorted(wrong.items())
    ]


def refuse_another(manifest: Manifest, mine: Manifest) -> None:
    """Refuse a scorer, or a context, that is another here; a device of another kind is none."""
    identity = manifest.identity
    for name in mine.identity.keys() - {"fingerprints", "device"}:
        if not _alike(name, identity.get(name), here := mine.identity[name]):
            hint = " (--choices, --posts)" if name == "context_fingerprint" else ""
            raise UsageError(f"has {name} {identity.get(name)!r}; it is {here!r} here{hint}")
    names = _other_details(manifest, mine)
    if identity["fingerprints"] != mine.identity["fingerprints"] and names != {"device"}:
        what = ", ".join(sorted(names)) or "fingerprint"
        raise UsageError(f"the scorer that is built here has another {what}")


def _other_details(manifest: Manifest, mine: Manifest) -> set[str]:
    nothing: Mapping[str, Any] = {}
    both = zip_longest(manifest.details, mine.details, fillvalue=nothing)
    return {
        name
        for old, new in both
        for name in {*old, *new}
        if not _alike(name, old.get(name), new.get(name))
    }


def _alike(name: str, there: object, here: object) -> bool:
    # A card that chose its tokens at a time names none, and another device has its choice.
    return there == here or (name == "batch_tokens" and there is None)


def other_entries(manifest: Manifest, mine: Manifest) -> list[str]:
    """Return what the manifest of a run tells that is otherwise here."""
    names = sorted(_other_details(manifest, mine) - {"device"})
    wrong = [f"`details` have another {name}" for name in names]
    for name in ("passes", "inputs"):
        if getattr(manifest, name) != getattr(mine, name):
            wrong.append(f"`{name}` are others than here")
    return wrong
