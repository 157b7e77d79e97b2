"""What can be told without the user, and where a scorer stands on the pairs."""

from __future__ import annotations

import numpy as np

from palate.benchmarks import Dataset
from palate.comparison import Grid, findings_of
from palate.construction.blind import MOST, PROBE, probe
from palate.construction.checks.result import BlindFinding, Standing
from palate.embeddings import Features, build_features, plain_item
from palate.evaluation import Work, evaluated
from palate.metrics import Estimate, accuracy
from palate.metrics.arrays import id_codes
from palate.runs import ReportedEstimate, Run


def without_user(pairs: Dataset, embedder: str | None, work: Work) -> tuple[BlindFinding, ...]:
    """Return how often length and style tell the chosen answer, against ½.

    `longest` and `shortest` are ordinary runs; a probe is fitted on the other questions, to counts
    of style, and to an embedder's vectors beside them. Clustered as in `evaluate`. None are needed
    where all rows are mirrored: there each is at ½ by law.
    """
    if pairs.mirrored:
        return ()
    runs = {name: evaluated(name, pairs, "none", work) for name in ("longest", "shortest")}
    figures = {
        name: accuracy(run.verdicts.values, run.verdicts.clusters) for name, run in runs.items()
    }
    beside = {PROBE: ["style"]} | (
        {f"style and {embedder}": ["style", embedder]} if embedder else {}
    )
    for name, sources in beside.items():
        features = build_features(sources, work.session, work.settings)
        figures[name] = _probed(pairs, features, runs["longest"], work)
    return tuple(BlindFinding.of(name, estimate) for name, estimate in figures.items())


def _probed(pairs: Dataset, features: Features, run: Run, work: Work) -> Estimate:
    rows = pairs.pairs[:MOST]
    items = [plain_item(p.messages, text) for p in rows for text in (p.chosen, p.rejected)]
    table = features.table(items, work.start(" and ".join(features.specs)))
    # What is too long for a model tells nothing by it.
    sides = np.nan_to_num(table).reshape(len(rows), 2, -1)
    missing = np.isnan(table).reshape(len(rows), 2, -1).any(axis=1, keepdims=True)
    users, questions = (id_codes(ids)[0] for ids in zip(*((p.user_id, p.key) for p in rows)))
    values = probe(np.where(missing, 0, sides), users, questions, work.settings.seed)
    return accuracy(values, run.verdicts.clusters.take(np.arange(len(rows))))


def standings(grid: Grid) -> tuple[Standing, ...]:
    """Return each scorer's finding, with its accuracy under nothing, posts and a stranger's."""
    return tuple(
        Standing(
            scorer=each.scorer,
            context=each.context,
            accuracy=each.run.summary.accuracy,
            nothing=_accuracy(each.nothing),
            stranger=_accuracy(each.stranger),
            identity=each.identity,
            finding=each.word,
        )
        for each in findings_of(grid)
    )


def _accuracy(run: Run | None) -> ReportedEstimate | None:
    return None if run is None else run.summary.accuracy
