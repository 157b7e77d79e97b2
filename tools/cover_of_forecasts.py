"""How often the intervals of forecasts cover what best-of-k then gives, in planted worlds.

    python tools/cover_of_forecasts.py [WORLDS]

Couples of two users judge what their answers differ in, C. A scorer has a blind part, which both
users share, and a personal one of correlation r with C. The benchmark's pairs are two answers; the
policy has 8, of which the best of 4 is picked, or of 2 and of 8 (`k`). The truth is the oracle
share that `best_of_curve` finds. Beside the forecast stand the models it was chosen from:

    accuracy   r = sin(π (mirrored accuracy - ½)), and every pick is as free as the best possible
    gaussian   r = sin(π (concordance - ½))
    ranks, spread   the two that a forecast spans
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy.special import stdtrit

from palate.metrics import Clusters, Estimate, Skill, best_of_curve, clustered_mean, forecasts
from palate.reports import Form, Table, render

Doubles = Any
SAMPLES = 8


@dataclass(frozen=True)
class World:
    """One setting; answers and pairs are drawn alike unless it says otherwise."""

    name: str
    r: float = 0.3
    couples: int = 48
    users: int = 32
    k: int = 4
    blind: float = 1.0
    """Standard deviation of the blind part, for one of 1 of the personal part."""
    blind_policy: float | None = None
    tails: float | None = None
    """Degrees of freedom of t instead of the normal."""
    differing: float = 0.0
    """Standard deviation of r over couples."""
    uneven: float = 0.0
    """Standard deviation of the logarithm of what a question's answers differ in."""
    distorted: bool = False
    """Scores are exponentials."""
    scale: float = 1.0
    """Of the scores of the policy's answers."""
    closer: float = 1.0
    """Standard deviation of C over the policy's answers."""
    apart: float = 0.0
    """Least difference in C of a benchmark's pair."""


WORLDS = (
    World("usual"),
    World("no skill", r=0.0),
    World("reversed", r=-0.5),
    World("r = 0.7", r=0.7),
    World("20 couples", couples=20, users=16),
    World("150 couples", couples=150, users=50),
    World("k = 2", k=2),
    World("k = 8", k=8),
    World("little blind", blind=0.2),
    World("mostly blind", blind=3.0),
    World("blind to the policy's answers", blind_policy=3.0),
    World("heavy tails, t of 3", tails=3.0),
    World("users read unequally", differing=0.25),
    World("uneven questions", uneven=0.6),
    World("distorted scores", distorted=True),
    World("other scale of scores", scale=0.3),
    World("policy's answers closer", closer=0.5),
    World("pairs chosen apart", apart=2.0),
    World("apart, r = 0.7", r=0.7, apart=2.0),
    World("apart and closer", apart=2.0, closer=0.5),
    World("far apart", apart=3.0),
)


def answers(w: World, stream: np.random.Generator, r: Doubles, n: int, policy: bool) -> Doubles:
    """Draw C and both users' scores of n answers to each question."""
    shape = (r.size, n)

    def draw() -> Doubles:
        if w.tails is None:
            return stream.normal(size=shape)
        return stream.standard_t(w.tails, shape) / np.sqrt(w.tails / (w.tails - 2))

    c = draw() * (w.closer if policy else 1.0)
    personal = r[:, None] * c + np.sqrt(1 - r[:, None] ** 2) * draw()
    blind = draw() * (w.blind_policy if policy and w.blind_policy is not None else w.blind)
    both = np.stack([blind + personal, blind - personal])
    return c, (np.exp(both) if w.distorted else both) * (w.scale if policy else 1.0)


def pairs(w: World, stream: np.random.Generator, r: Doubles) -> tuple[Doubles, Doubles]:
    """Draw the benchmark's pairs: margins of each user towards what they chose."""
    c, scores = answers(w, stream, r, 2, False)
    while (near := np.abs(c[:, 0] - c[:, 1]) < w.apart).any():
        c[near], scores[:, near] = answers(w, stream, r[near], 2, False)
    margins = (scores[:, :, 0] - scores[:, :, 1]) * np.sign(c[:, 0] - c[:, 1])
    return margins[0], -margins[1]


def one(w: World, seed: int) -> Iterator[tuple[str, float, float, float]]:
    """Yield each model's forecast with its interval; first what came."""
    stream = np.random.default_rng([seed, WORLDS.index(w)])
    a = b = np.zeros(w.couples)
    while (a == b).any():
        a, b = stream.permutation(np.arange(2 * w.couples) % w.users).reshape(2, -1)
    r = np.clip(w.r + w.differing * stream.normal(size=w.couples), -0.95, 0.95)
    first, second = pairs(w, stream, r)
    c, scores = answers(w, stream, r, SAMPLES, True)
    c = c * np.exp(w.uneven * stream.normal(size=(w.couples, 1)))
    yield "came", share(w, a, b, c, scores), 0.0, 0.0
    clusters = Clusters.of(a, b, questions=range(w.couples))
    margins = first + second
    skill, (told,) = forecasts.forecast_shares(margins, clusters, scores[0], [w.k], scores[1])
    yield "forecast", told.value, told.low, told.high
    picks = (scores[0], clusters, scores[1])
    ranks = forecasts._skill(margins, clusters, np.inf)  # no spread reaches beyond its interval
    yield "ranks", *model(w, replace(ranks, value=ranks.by_ranks), *picks)
    yield (
        "spread",
        *model(w, Skill(skill.by_spread, skill.by_spread, skill.by_spread, 0, 0), *picks),
    )
    yield "gaussian", *model(w, sine(clustered_mean((np.sign(margins) + 1) / 2, clusters)), *picks)
    right = ((first > 0) * 1.0 + (second > 0)) / 2
    of = sine(clustered_mean(right, clusters))
    yield "accuracy", of.value, of.low, of.high


def share(w: World, a: Doubles, b: Doubles, c: Doubles, scores: Doubles) -> float:
    """Return the oracle share of picks of k."""
    half = c / (2.1 * np.abs(c).max())
    gold = np.stack([0.5 + half, 0.5 - half], axis=1).reshape(-1, SAMPLES)
    values, users = scores.swapaxes(0, 1).reshape(-1, SAMPLES), np.stack([a, b], axis=1).ravel()
    mirrors, questions = np.arange(users.size) ^ 1, np.arange(users.size) // 2
    curve = best_of_curve(values, gold, users, [w.k], questions=questions, mirrors=mirrors)
    return float(curve.points[0].oracle_share.value or 0.0)


def sine(of: Estimate) -> Skill:
    """Return the correlation of two normals that agree in sign so often."""
    half = stdtrit(of.df, 0.95) * of.se if of.se and of.df else 0.0
    ends = (of.value - half, of.value + half) if half else (of.low, of.high)
    turned = (float(np.sin(np.pi * (np.clip(x, 0, 1) - 0.5))) for x in (of.value, *ends))
    value, low, high = turned
    return Skill(value, value, value, low, high)


def model(w: World, r: Skill, own: Doubles, clusters: Clusters, other: Doubles) -> Doubles:
    """Return what another skill forecasts for the same picks."""
    with patch.object(forecasts, "_skill", return_value=r):
        told = forecasts.forecast_shares(own[:, 0], clusters, own, [w.k], other)[1][0]
    return told.value, told.low, told.high


def main() -> None:
    """Print cover, mean width, bias and mean absolute error, a row for each setting."""
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    rows = []
    for w in WORLDS:
        told: dict[str, list[tuple[float, float, float]]] = {}
        for seed in range(worlds):
            (_, came, _, _), *models = one(w, seed)
            for name, value, low, high in models:
                held = low - 1e-9 <= came <= high + 1e-9
                told.setdefault(name, []).append((held, high - low, value - came))
        figures = {name: np.array(of, dtype=float) for name, of in told.items()}
        ours = figures["forecast"]
        mine = [f"{x:.2f}" for x in (ours[:, 1].mean(), ours[:, 2].mean())]
        cover = [f"{of[:, 0].mean():.3f}" for name, of in figures.items() if name != "spread"]
        error = [f"{np.abs(of[:, 2]).mean():.3f}" for of in figures.values()]
        rows.append([w.name, cover[0], *mine, *cover[1:], *error])
        sys.stderr.write(f"{' '.join(rows[-1])}\n")
    names = ["ranks", "gaussian", "accuracy"]
    columns = ["setting", "cover", "width", "bias", *(f"cover by {name}" for name in names)]
    columns += ["error", *(f"error by {name}" for name in ("ranks", "spread", *names[1:]))]
    table = Table(f"90 % intervals, {worlds} worlds each", columns, rows)
    sys.stdout.write(render([table], Form.MARKDOWN))


if __name__ == "__main__":
    main()
