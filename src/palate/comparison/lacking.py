"""Requests of a grid, written to a file instead of sent to endpoints."""

from __future__ import annotations

from collections.abc import Sequence

from palate.comparison.grid import PlannedCell
from palate.engines.http.batch_files import RequestFile
from palate.errors import EndpointError
from palate.evaluation import BoundScorer, Work
from palate.evaluation.undecided import score_undecided


def write_lacking(cells: Sequence[PlannedCell], work: Work, requests: RequestFile) -> int:
    """Write what neither the cache nor a run under the root holds; from then on nothing is sent.

    Returns how many cells ask more once these are answered: a model writes their contexts first.
    """
    assert work.session.replies is not None, "requests are what a cache lacks"
    work.session.replies.requests = requests
    waiting = 0
    with requests:
        for cell in (cell for cell in cells if not cell.not_applicable):
            progress = work.start(f"{cell.scorer} · {cell.context}")
            try:
                job = BoundScorer.of(cell.scorer, cell.benchmark, cell.context, work)
                computation = job.computation(job.rows)  # plans, so contexts' texts are written
                if cell.asks or "api:" in str([it.get("embedders") for it in computation.details]):
                    computation.run(None, work.root, progress)
                    if cell.rate_undecided:
                        score_undecided(job, None, progress)
            except EndpointError:
                if not requests.batches:
                    raise
                waiting += 1
    return waiting
