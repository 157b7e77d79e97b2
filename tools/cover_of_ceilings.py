"""How often the intervals of ceilings cover, in planted votes of users who share pairs.

    python tools/cover_of_ceilings.py [WORLDS] [--only WORD]

Of each pair, p is drawn by the law named; of a user on it, q is around p (*torn*), 0 or 1 with
chance p (*firm*), or p itself (*no taste*). Of two groups of users each favours a side of every
pair, the other's in half of them. *Careless* users vote at random, some more and some less. A pair
has so many votes, each as likely as the others; some are asked again. The scorer picks the side
that the user is likelier to choose, and in one of ten cases the other. Cover is of B, P, P - B and
the share captured, with mean widths, and the share of worlds in which both ends are finite. The
exit status is 1 where any is below 0.93.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from palate.metrics import Ceilings, Clusters, ceilings
from palate.reports import Form, Table, render
from palate.seeding import rng

BAR, ROUNDING, SKILL = 0.93, 1e-4, 0.9
Array = Any
Stream = np.random.Generator
Chances = Callable[[Stream, Array, Array], Array]
"""Of the users and pairs of the votes, how often each user would choose the first response."""


def torn(a: float, steadiness: float | None) -> Chances:
    """Draw p by beta(a, a), and q by a beta around it; without steadiness q is p."""

    def chances(stream: Stream, users: Array, pairs: Array) -> Array:
        p = stream.beta(a, a, pairs.max() + 1)[pairs]
        if steadiness is None:
            return p
        return stream.beta(np.maximum(p * steadiness, 1e-9), np.maximum((1 - p) * steadiness, 1e-9))

    return chances


def firm(a: float) -> Chances:
    """Draw p by beta(a, a), and whether each user always chooses the first."""

    def chances(stream: Stream, users: Array, pairs: Array) -> Array:
        return (stream.random(pairs.size) < stream.beta(a, a, pairs.max() + 1)[pairs]) * 1.0

    return chances


def alike(p: float, *, is_firm: bool) -> Chances:
    """Give every pair the same p."""

    def chances(stream: Stream, users: Array, pairs: Array) -> Array:
        return (stream.random(pairs.size) < p) * 1.0 if is_firm else np.full(pairs.size, p)

    return chances


def groups(share: float, sure: float) -> Chances:
    """Let two groups favour a side each, the same one in half of the pairs."""

    def chances(stream: Stream, users: Array, pairs: Array) -> Array:
        second = (stream.random(users.max() + 1) < share)[users]
        sides = stream.integers(0, 2, (2, pairs.max() + 1))
        return np.where(sides[second * 1, pairs] == 1, sure, 1 - sure)

    return chances


def careless(a: float) -> Chances:
    """Let users vote at random in so many cases, each by their own share."""

    def chances(stream: Stream, users: Array, pairs: Array) -> Array:
        care = stream.beta(4, 1.5, users.max() + 1)[users]
        return 0.5 + (stream.beta(a, a, pairs.max() + 1)[pairs] - 0.5) * care

    return chances


class Setting(NamedTuple):
    """A law of votes, and who votes on what."""

    name: str
    chances: Chances
    blind: float
    personal: float
    users: int = 60
    pairs: int = 300
    votes: tuple[int, int] = (2, 12)
    pairs_a_question: int = 1
    again: float = 0.15

    def truths(self) -> tuple[float | None, ...]:
        """Return B, P, P - B and the share captured."""
        taste = self.personal - self.blind
        accuracy = SKILL * self.personal + (1 - SKILL) * (1 - self.personal)
        captured = (accuracy - self.blind) / taste if taste else None
        return self.blind, self.personal, taste, captured

    def world(self, seed: int) -> Ceilings:
        """Draw votes, a scorer's verdicts, and bound the ceilings."""
        stream = rng("cover of ceilings", self.name, seed)
        sizes = np.minimum(stream.integers(*self.votes, self.pairs, endpoint=True), self.users)
        diligence = stream.gamma(2, 1, self.users)
        drawn = [
            stream.choice(self.users, n, replace=False, p=diligence / diligence.sum())
            for n in sizes
        ]
        users, pairs = np.concatenate(drawn), np.repeat(np.arange(self.pairs), sizes)
        q = self.chances(stream, users, pairs)
        right = stream.random(q.size) < SKILL
        rows = np.arange(q.size)
        rows = np.concatenate([rows, rows[stream.random(q.size) < self.again]])
        first = stream.random(rows.size) < q[rows]
        texts = 2 * pairs[rows] + first, 2 * pairs[rows] + ~first
        questions = pairs[rows] // self.pairs_a_question
        verdicts = (((q > 0.5) == right)[rows] == first) * 1.0
        return ceilings(Clusters.of(users[rows], questions=questions, texts=texts), verdicts)


def beta_ceiling(a: float) -> float:
    """Return E max(p, 1 - p) of beta(a, a): ½ + Γ(a + ½)/(2 √π Γ(a + 1))."""
    from scipy.special import gamma

    return float(0.5 + gamma(a + 0.5) / (2 * np.sqrt(np.pi) * gamma(a + 1)))


def torn_ceiling(a: float, steadiness: float) -> float:
    """Return E max(q, 1 - q) of torn(a, steadiness), over 20,000 quantiles of p."""
    from scipy.special import betainc, betaincinv

    p = betaincinv(a, a, (np.arange(20_000) + 0.5) / 20_000)
    yes, no = p * steadiness, (1 - p) * steadiness
    below = (1 - p) * betainc(yes, no + 1, 0.5)
    return float((below + p * (1 - betainc(yes + 1, no, 0.5))).mean())


FLAT, STEEP = beta_ceiling(2), beta_ceiling(0.4)
CARELESS = 0.5 + 4 / 5.5 * (beta_ceiling(0.7) - 0.5)
UNIFORM = beta_ceiling(1), torn_ceiling(1, 2)
SETTINGS = (
    Setting("beta(2, 2), torn", torn(2, 4), FLAT, torn_ceiling(2, 4)),
    Setting("beta(1, 1), torn", torn(1, 2), *UNIFORM),
    Setting("beta(0.4, 0.4), firm", firm(0.4), STEEP, 1.0),
    Setting("two groups, 50 %", groups(0.5, 0.9), 0.7, 0.9),
    Setting("two groups, 30 %", groups(0.3, 0.95), 0.5 * 0.95 + 0.5 * 0.68, 0.95),
    Setting("all alike, p 0.8, firm", alike(0.8, is_firm=True), 0.8, 1.0),
    Setting("p 0.5, firm", alike(0.5, is_firm=True), 0.5, 1.0),
    Setting("nearly unanimous", firm(0.05), beta_ceiling(0.05), 1.0),
    Setting("no taste, all alike, p 0.8", alike(0.8, is_firm=False), 0.8, 0.8),
    Setting("no taste, beta(2, 2)", torn(2, None), FLAT, FLAT),
    Setting("no taste, beta(0.4, 0.4)", torn(0.4, None), STEEP, STEEP),
    Setting("no taste, careless", careless(0.7), CARELESS, CARELESS),
    Setting("2 or 3 votes", torn(1, 2), *UNIFORM, 80, 300, (2, 3)),
    Setting("4 pairs a question", torn(1, 2), *UNIFORM, 60, 300, (2, 12), 4),
    Setting("40 users, 12 to 20 votes", groups(0.5, 0.9), 0.7, 0.9, 40, 200, (12, 20)),
    Setting("200 users, 1,000 pairs", torn(1, 2), *UNIFORM, 200, 1000),
)  # fmt: skip


def line(setting: Setting, worlds: int) -> tuple[list[str], float]:
    """Return cover and width of each figure, and the lowest cover."""
    every = [setting.world(seed) for seed in range(worlds)]
    cells, lowest = [setting.name], 1.0
    fields = ("blind", "personal", "taste", "captured")
    for field, truth in zip(fields, setting.truths(), strict=True):
        if truth is None:
            cells += ["–"]
            continue
        ends = [getattr(world, field) or (np.nan, np.nan) for world in every]
        low = np.array([-np.inf if end is None else end for end, _ in ends])
        high = np.array([np.inf if end is None else end for _, end in ends])
        cover = ((low <= truth + ROUNDING) & (truth - ROUNDING <= high)).mean()
        finite = np.isfinite(high - low)
        width = f"{(high - low)[finite].mean():.2f}" if finite.any() else "–"
        share = "" if finite.all() else f", finite {finite.mean():.2f}"
        cells.append(f"{truth:.2f}: {cover:.3f} ({width}{share})")
        lowest = min(lowest, float(cover))
    return cells, lowest


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("worlds", type=int, nargs="?", default=400)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    chosen = [setting for setting in SETTINGS if asked.only in setting.name]
    lines, covers = zip(*(line(setting, asked.worlds) for setting in chosen), strict=True)
    columns = ["votes", "B", "P", "P − B", "captured"]
    title = f"truth: cover (mean width), {asked.worlds} worlds each"
    sys.stdout.write(render([Table(title, columns, lines)], Form.MARKDOWN))
    sys.stdout.write(f"lowest: {min(covers):.3f} (bar {BAR})\n")
    return int(min(covers) < BAR)


if __name__ == "__main__":
    sys.exit(main())
