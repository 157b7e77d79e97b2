"""From verdicts to a summary: the statistics of docs/statistics.md, and nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palate import metrics
from palate.metrics import Estimate
from palate.records import Outcome
from palate.runs import Figure, Summary, Verdicts


def summarise(
    verdicts: Verdicts,
    *,
    benchmark: str,
    scorer: str,
    context: str,
    log_odds: bool = False,
    seed: int = 0,
    user_scale: Mapping[str, float] | None = None,
    **facts: Any,
) -> Summary:
    """Return the summary of one run.

    `user_scale` holds, for a scorer with a state per user, the root mean square margin of each
    user's state over one common set of pairs; shift is computed on margins divided by it.
    """
    # By id: sums of floats depend on their order, and a figure must not depend on the file's.
    verdicts = Verdicts(sorted(verdicts.rows, key=lambda row: row.id))
    values, users = verdicts.values, verdicts.users
    mirrored = verdicts.mirrored
    counts = metrics.outcome_counts(values)
    couples = verdicts.couples if mirrored else None
    accuracy = _headline(values, users, couples)
    return Summary(
        benchmark=benchmark,
        scorer=scorer,
        context=context,
        n_pairs=len(verdicts),
        n_users=len(set(users.tolist())),
        accuracy=Figure.of(accuracy),
        strict_accuracy=metrics.strict_accuracy(values),
        bounds=metrics.accuracy_bounds(values),
        ties=counts.ties,
        unscored=counts.unscored,
        unscored_reasons=_reasons(verdicts),
        mirrored_accuracy=Figure.of(accuracy) if mirrored else None,
        shift=Figure.of(shift(verdicts, user_scale)) if mirrored else None,
        subsets=_subsets(verdicts),
        detectable_effect=_detectable(accuracy),
        position_consistency=_consistency(verdicts),
        calibration=_calibration(verdicts, seed) if log_odds else None,
        **(_unmirrored(verdicts) if not mirrored else {}),
        **facts,
    )


def shift(verdicts: Verdicts, user_scale: Mapping[str, float] | None = None) -> Estimate:
    """Share of couples whose margin for a response is higher under the user who chose it."""
    margins = verdicts.margins
    if user_scale is not None:
        margins = margins / np.array([user_scale[user] or 1.0 for user in verdicts.users])
    a, b = verdicts.couples.T
    # Row B's margin is of B's choice over A's; A's choice over B's under user B is its negative.
    values = metrics.shift_values(margins[a], -margins[b])
    return metrics.couple_mean(values, verdicts.users[a], verdicts.users[b])


def _headline(
    values: NDArray[np.float64], users: NDArray[np.str_], couples: NDArray[np.int64] | None
) -> Estimate:
    if couples is None:
        return metrics.accuracy(values, users)
    a, b = couples.T
    return metrics.couple_mean(metrics.mirrored_values(values[a], values[b]), users[a], users[b])


def _subsets(verdicts: Verdicts) -> dict[str, Figure]:
    names = dict.fromkeys(verdicts.subsets.tolist())
    parts = {name: Verdicts(row for row in verdicts.rows if row.subset == name) for name in names}
    return {
        name: Figure.of(_headline(part.values, part.users, part.couples if part.mirrored else None))
        for name, part in parts.items()
    }


def _unmirrored(verdicts: Verdicts) -> dict[str, Any]:
    values, users = verdicts.values, verdicts.users
    chosen, rejected = verdicts.lengths.T
    worst = metrics.worst_decile(values, users)
    controlled = metrics.length_controlled(values, chosen, rejected, users)
    return {
        "macro_accuracy": Figure.of(metrics.macro_mean(values, users)),
        "worst_decile": {"raw": worst.raw, "shrunken": worst.shrunken},
        "length_controlled": Figure.of(controlled.estimate),
    }


def _calibration(verdicts: Verdicts, seed: int) -> dict[str, Any] | None:
    found = metrics.calibration(verdicts.margins, verdicts.users, seed=seed)
    return asdict(found) if found.before is not None else None


def _consistency(verdicts: Verdicts) -> dict[str, Any] | None:
    both = [
        (row.orders, 1.0 if row.chosen_first else -1.0)
        for row in verdicts.rows
        if len(row.orders) == 2 and None not in row.orders
    ]
    if not both:
        return None
    # Orders are told of the chosen response; position asks of the one that was shown first.
    signs = np.array([side for _, side in both])[:, None]
    votes = (np.sign(np.array([orders for orders, _ in both], dtype=float) * signs) + 1) / 2
    return asdict(metrics.position_consistency(votes[:, 0], votes[:, 1]))


def _detectable(accuracy: Estimate) -> float | None:
    if accuracy.se is None or accuracy.df is None:
        return None
    return metrics.minimum_detectable_effect(accuracy.se, accuracy.df)


def _reasons(verdicts: Verdicts) -> dict[str, int]:
    reasons = (row.reason or "unknown" for row in verdicts.rows if row.outcome is Outcome.UNSCORED)
    return dict(sorted(Counter(reasons).items()))
