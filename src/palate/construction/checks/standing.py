"""Scorers that tell the chosen answer without the user, and where others stand on the pairs."""

from __future__ import annotations

import numpy as np

from palate.benchmarks import Dataset
from palate.comparison import Grid, findings_of
from palate.construction.blind import MOST, PROBE, probe
from palate.construction.checks.result import BlindFinding, Standing
from palate.embeddings import build_features, plain_item
from palate.evaluation import Work, evaluated
from palate.metrics import accuracy, equivalence
from palate.metrics.arrays import FloatArray, id_codes
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
    values = {name: run.verdicts.values for name, run in runs.items()}
    values[PROBE] = _probed(pairs, ["style"], work)
    if embedder:
        values[f"style and {embedder}"] = _probed(pairs, ["style", embedder], work)
    clusters = runs["longest"].verdicts.clusters
    findings = []
    for scorer, right in values.items():
        estimate = accuracy(right, clusters.take(np.arange(len(right))))
        tested = equivalence(estimate)
        figure, words = ReportedEstimate.of(estimate), tested.words("pairs")
        finding = {"finding": tested.finding, "p": tested.p, "words": words}
        findings.append(BlindFinding(scorer=scorer, accuracy=figure, **finding))
    return tuple(findings)


def _probed(pairs: Dataset, sources: list[str], work: Work) -> FloatArray:
    rows = pairs.pairs[:MOST]
    items = [plain_item(p.messages, text) for p in rows for text in (p.chosen, p.rejected)]
    features = build_features(sources, work.session, work.settings)
    table = features.table(items, work.start(" and ".join(sources)))
    sides = table.reshape(len(rows), 2, -1)
    # Where a text is too long for a model, its vector tells nothing.
    sides[np.broadcast_to(np.isnan(sides).any(axis=1, keepdims=True), sides.shape)] = 0
    users, _ = id_codes([pair.user_id for pair in rows])
    questions, _ = id_codes([pair.key for pair in rows])
    return probe(sides, users, questions, work.settings.seed)


def standings(grid: Grid) -> tuple[Standing, ...]:
    """Return each scorer's finding, with its accuracy under nothing, posts and a stranger's."""
    return tuple(
        Standing(
            scorer=each.scorer,
            context=each.context,
            accuracy=(_accuracy(each.nothing), each.run.summary.accuracy, _accuracy(each.stranger)),
            identity=each.identity,
            finding=each.word,
        )
        for each in findings_of(grid)
    )


def _accuracy(run: Run | None) -> ReportedEstimate | None:
    return None if run is None else run.summary.accuracy
