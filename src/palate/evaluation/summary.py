"""From verdicts to a summary: the statistics of docs/statistics.md, and nothing else."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.metrics import Estimate
from palate.runs import ReportedEstimate, Summary, Verdicts


def summarise(
    verdicts: Verdicts,
    *,
    benchmark: str,
    scorer: str,
    context: str,
    log_odds: bool = False,
    seed: int = 0,
    scales: NDArray[np.float64] | None = None,
    **facts: Any,
) -> Summary:
    """Return the summary of one run.

    `scales` holds, for a scorer with a state per user, the root mean square margin of each row's
    state over one common set of pairs; shift is computed on margins divided by it.
    """
    # By id: sums of floats depend on their order, and a figure must not depend on the file's.
    order = verdicts.order_by_id()
    verdicts, scales = verdicts.take(order), None if scales is None else scales[order]
    values, mirrored = verdicts.values, verdicts.mirrored
    counts = metrics.outcome_counts(values)
    accuracy = headline(verdicts)
    return Summary(
        benchmark=benchmark,
        scorer=scorer,
        context=context,
        n_pairs=len(verdicts),
        n_users=verdicts.clusters.n_users if len(verdicts) else 0,
        accuracy=ReportedEstimate.of(accuracy),
        strict_accuracy=metrics.strict_accuracy(values),
        bounds=metrics.accuracy_bounds(values),
        ties=counts.ties,
        unscored=counts.unscored,
        unscored_reasons=verdicts.unscored_reasons,
        mirrored_accuracy=ReportedEstimate.of(accuracy) if mirrored else None,
        concordance=ReportedEstimate.of(concordance(verdicts, scales)) if mirrored else None,
        subsets={name: ReportedEstimate.of(headline(part)) for name, part in verdicts.of_subsets()},
        clustered_by=_clustered_by(verdicts),
        minimum_detectable_effect=metrics.minimum_detectable_effect(accuracy.se, accuracy.df),
        position_consistency=_consistency(verdicts),
        calibration=_calibration(verdicts, seed) if log_odds else None,
        **(_unmirrored(verdicts) if not mirrored else {}),
        **facts,
    )


def concordance(verdicts: Verdicts, scales: NDArray[np.float64] | None = None) -> Estimate:
    """Share of couples whose margin for a response is higher under the user who chose it."""
    margins = verdicts.margins if scales is None else verdicts.margins / scales
    a, b = verdicts.couples.T
    # Row B's margin is of B's choice over A's; A's choice over B's under user B is its negative.
    values = metrics.concordance_values(margins[a], -margins[b])
    return metrics.clustered_mean(values, verdicts.couple_clusters)


def headline(verdicts: Verdicts) -> Estimate:
    """Accuracy over rows; where all rows stand in mirrored couples, over couples."""
    if not verdicts.mirrored:
        return metrics.accuracy(verdicts.values, verdicts.clusters)
    a, b = verdicts.couples.T
    values = metrics.mirrored_values(verdicts.values[a], verdicts.values[b])
    return metrics.clustered_mean(values, verdicts.couple_clusters)


def _unmirrored(verdicts: Verdicts) -> dict[str, Any]:
    values, clusters = verdicts.values, verdicts.clusters
    chosen, rejected = verdicts.lengths.T
    controlled = metrics.length_controlled(values, chosen, rejected, clusters)
    return {
        "macro_accuracy": ReportedEstimate.of(metrics.macro_mean(values, clusters)),
        "worst_decile": worst_decile(verdicts),
        "length_controlled": ReportedEstimate.of(controlled),
    }


def worst_decile(verdicts: Verdicts) -> dict[str, float | None]:
    """Mean accuracy of the lowest tenth of users, raw and shrunk."""
    worst = metrics.worst_decile(verdicts.values, verdicts.user_codes)
    return {"raw": worst.raw, "shrunken": worst.shrunken}


def _calibration(verdicts: Verdicts, seed: int) -> dict[str, Any] | None:
    found = metrics.calibration(verdicts.margins, verdicts.users, seed=seed)  # dealt out by name
    return asdict(found) if found.before is not None else None


def _consistency(verdicts: Verdicts) -> dict[str, Any] | None:
    orders, first = verdicts.orders, verdicts.chosen_first
    read = ~np.isnan(orders).any(axis=1)
    if not read.any():
        return None
    # Orders are told of the chosen response; position asks of the one that was shown first.
    signs = np.where(first[read], 1.0, -1.0)[:, None]
    votes = (np.sign(orders[read] * signs) + 1) / 2
    return asdict(metrics.position_consistency(votes[:, 0], votes[:, 1]))


def _clustered_by(verdicts: Verdicts) -> str:
    scored = ~np.isnan(verdicts.values)
    if not verdicts.mirrored:
        return verdicts.clusters.take(scored).by
    both = np.flatnonzero(scored[verdicts.couples].all(axis=1))
    return verdicts.couple_clusters.take(both).by
