"""What study.py left in WORK, as the numbers that the tables print.

python -m studies.ppo.figures WORK > studies/ppo/figures.json
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from palate.metrics import Estimate, holm, minimum_detectable_effect
from palate.runs import Run, load_all, load_runs
from palate.uses.best_of_n import BestOfResult
from palate.uses.ppo_result import PolicyEvaluation, PolicyTrainingResult, gain_at
from studies.ppo.study import BEST_OF, SEEDS, Study

Figures = dict[str, Any]
Doubles = NDArray[np.float64]
BEST_OF_KL = float(np.log(BEST_OF) - (BEST_OF - 1) / BEST_OF)
"""The most that the best of so many answers is from the policy, in nats (Beirami et al. 2024)."""


class Moved(NamedTuple):
    """What training changed by row, at one distance from the start."""

    kl: float
    """The one that was asked for; the last one where training did not go so far."""
    quality: Doubles


def main() -> None:
    """Print all figures of the results that are there."""
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    sys.stdout.write(json.dumps(figures_of(Path(sys.argv[1]) / "runs"), indent=1) + "\n")


def figures_of(root: Path) -> Figures:
    """Return all figures of the results under a folder; raises `SystemExit` where none is."""
    trained = {name: list(_trained(root, name)) for name in Study.names()}
    trained = {name: results for name, results in trained.items() if results}
    if not trained:
        raise SystemExit(f"{root}: no policy is trained there yet; run study.py")
    picked = _picked(root / "best-of-n")
    accuracies = _accuracies(root / "evaluate")
    of = next(iter(trained.values()))[0]
    rows = of.figures
    scorers, gains = [], {}
    for name, results in trained.items():
        trained_on = results[0].summary.trained_on
        spec = trained_on.scorer, trained_on.context
        moved = [at_kl(result, BEST_OF_KL) for result in results]
        gains[name] = np.mean([each.quality for each in moved], axis=0)
        none = np.zeros_like(gains[name])
        best = picked.get(spec)
        scorers.append({
            "name": name, "scorer": spec[0], "context": spec[1], "accuracy": accuracies.get(spec),
            "seeds": [_levels(result) for result in results],
            "at_kl": [each.kl for each in moved], "gain": _detectable(rows.gain(gains[name], none)),
            "last": _detectable(rows.gain(_last(results), none)),
            "best_of": None if best is None else _detectable(rows.gain(best, none)),
            "over_best_of": None if best is None else _detectable(rows.gain(gains[name], best)),
        })  # fmt: skip
    differences = [
        {"first": one, "second": other, **_detectable(rows.gain(gains[one], gains[other]))}
        for one, other in combinations(gains, 2)
    ]
    corrected = holm([each["p"] for each in differences])
    for each, p_holm in zip(differences, corrected, strict=True):
        each["p_holm"] = p_holm
    return {"kl": BEST_OF_KL, "rows": len(of.rows), "users": len({row.user for row in of.rows}),
                "scorers": scorers, "differences": differences}  # fmt: skip


def at_kl(result: PolicyTrainingResult, kl: float) -> Moved:
    """Return what training changed in quality by row when the policy was so far from its start.

    Between two evaluations quality is taken to be linear in √KL.
    """
    return moved_at([each.kl for each in result.summary.evaluations], _quality(result), kl)


def moved_at(kls: Sequence[float], quality: Doubles, kl: float) -> Moved:
    """Return the same of qualities (rows × evaluations).

    >>> moved_at([0.0, 1.0, 9.0], np.array([[0.1, 0.2, 0.4]]), 4.0)
    Moved(kl=4.0, quality=array([0.2]))
    >>> moved_at([0.0, 1.0], np.array([[0.1, 0.2]]), 4.0)
    Moved(kl=1.0, quality=array([0.1]))
    """
    moved, far = quality - quality[:, :1], np.sqrt(kls)
    k = next((k for k, there in enumerate(kls) if there >= kl), None)
    if not k:
        return Moved(kls[-1], moved[:, -1])
    share = (np.sqrt(kl) - far[k - 1]) / (far[k] - far[k - 1])
    return Moved(kl, (1 - share) * moved[:, k - 1] + share * moved[:, k])


def on_curve(levels: Sequence[Figures], kl: float) -> float | None:
    """Return the mean gain at some KL by d (α − β log d), d = √KL, through two evaluations.

    Beyond the last evaluation it is read there; None unless two are away from the start.

    >>> kept = [{"kl": kl, "quality": gain_at(kl, 2.0, 1.0)} for kl in (0.0, 4.0, 9.0)]
    >>> round(on_curve(kept, 1.0), 6), round(on_curve(kept, 99.0) - gain_at(9.0, 2, 1), 6)
    (2.0, 0.0)
    """
    kls = [each["kl"] for each in levels[1:]]
    if len(kls) != 2 or len({*kls}) < 2 or not min(kls) > 0:
        return None
    distance = np.sqrt(kls)
    terms = np.stack([distance, -distance * np.log(distance)], axis=1)
    gains = [each["quality"] - levels[0]["quality"] for each in levels[1:]]
    alpha, beta = np.linalg.solve(terms, gains)
    return gain_at(min(kl, max(kls)), float(alpha), float(beta))


def _quality(result: PolicyTrainingResult) -> Doubles:
    return result.qualities[:, :, 0]


def _last(results: Sequence[PolicyTrainingResult]) -> Doubles:
    moved: Doubles = np.mean([_quality(each)[:, -1] - _quality(each)[:, 0] for each in results], 0)
    return moved


def _levels(result: PolicyTrainingResult) -> Figures:
    def of(each: PolicyEvaluation) -> Figures:
        stranger = each.stranger_reward
        return {
            "update": each.update, "kl": each.kl, "reward": each.reward.value,
            "stranger": None if stranger is None else stranger.value,
            "quality": each.qualities[0].mean.value, "tokens": each.tokens, "ended": each.ended,
            "entropy": each.entropy, "distinct": each.distinct, "copied": each.copied,
            "unscored": sum(each.unscored.values()),
        }  # fmt: skip

    summary = result.summary
    identity = summary.gain.identity
    return {
        "levels": [of(each) for each in summary.evaluations],
        "reward_gain": _detectable(summary.gain.reward),
        "identity": None if identity is None else _detectable(identity),
    }


def _trained(root: Path, name: str) -> Iterator[PolicyTrainingResult]:
    for seed in SEEDS:
        folder = root / f"{name}-{seed}"
        if any(folder.glob("*/ppo/*/summary.json")):
            yield from load_all(folder, PolicyTrainingResult.kind)  # type: ignore[misc]


def _picked(folder: Path) -> dict[tuple[str, str], Doubles]:
    """Return, by scorer and context, what its pick is worth above any answer, by row."""
    picked: dict[tuple[str, str], Doubles] = {}
    results = load_all(folder, BestOfResult.kind) if folder.exists() else []
    for result in results:
        assert isinstance(result, BestOfResult)
        ks = result.summary.ks
        for k, selection in enumerate(result.summary.cells):
            of_row = result.expected[:, k]
            gain = of_row[:, ks.index(BEST_OF)] - of_row[:, ks.index(1)]
            picked[selection.scorer, selection.context] = gain
    return picked


def _accuracies(folder: Path) -> dict[tuple[str, str], Figures]:
    runs: list[Run] = load_runs(folder) if folder.exists() else []
    return {
        (run.summary.scorer, run.summary.context): _estimate(run.summary.accuracy) for run in runs
    }


def _estimate(estimate: Any) -> Figures:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}


def _detectable(estimate: Estimate) -> Figures:
    least = minimum_detectable_effect(estimate.se, estimate.df)
    return {**_estimate(estimate), "p": estimate.p, "detectable": least}


if __name__ == "__main__":
    main()
