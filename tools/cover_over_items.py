"""How often the interval over items covers, where users and questions are noisy for both figures.

    python tools/cover_over_items.py [WORLDS]

20 scorers, 48 questions put to two of 32 users each. What users and questions do to a scorer is the
same for its benchmark figure and its downstream quality. Beside the interval as it is: without the
widening for questions, and with the two figures' noise taken as independent.

Then mirrored couples, and half of the scorers blind: no user moves these, and they are tied.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np

from palate.metrics.ranks import Replicates, statistics
from palate.metrics.ranks.over_items import range_over_items
from palate.reports import Form, Table, render
from palate.validity import Downstream
from palate.validity.figures import Units
from palate.validity.matching import Side, match, replicates

SCORERS, QUESTIONS, USERS = 20, 48, 32
SPREAD, NOISE = 0.6, 0.4
SPREADS = ((0.8, 0.8), (0.3, 1.5), (1.0, 0.5))
"""Standard deviations of what users and of what questions do to a scorer."""
COUPLES = ((48, 32, 0.6, 0.8, 0.4), (26, 18, 0.3, 0.3, 0.3), (26, 18, 0.1, 0.8, 0.8))
"""Couples, users, spread of the scorers, standard deviations of users and of couples."""
NAMES = [(f"s{k}", "none") for k in range(SCORERS)]


def row(of_users: float, of_questions: float, *, foretells: bool, worlds: int) -> list[str]:
    """Return one line of the table."""
    kendall = statistics()[0]
    stream = np.random.default_rng(5)
    skill = np.linspace(0, SPREAD, SCORERS)
    seen = skill if foretells else skill[stream.permutation(SCORERS)]
    truth = float(kendall(seen, skill)[0])
    covered, measured = np.zeros(3), []
    for _ in range(worlds):
        asked = np.repeat(np.arange(QUESTIONS), 2)
        who = np.concatenate([stream.choice(USERS, 2, replace=False) for _ in range(QUESTIONS)])
        shared = stream.normal(0, of_users, (USERS, SCORERS))[who]
        shared += stream.normal(0, of_questions, (QUESTIONS, SCORERS))[asked]
        x, y = (level + shared + stream.normal(0, NOISE, shared.shape) for level in (seen, skill))
        users = np.char.add("u", who.astype(str))
        below = Downstream(
            benchmark="below", policy="p", samples="s", quality="q", surrogate=False, k=4, n=8,
            values=dict(zip(NAMES, y.T, strict=True)), rows={}, users=users,
            questions=asked.astype(str),
        )  # fmt: skip
        units = {one: Units(own, (users,)) for one, own in zip(NAMES, x.T, strict=True)}
        one = match(Side("above", "accuracy", units, {}), below)
        assert one is not None
        apart = replace(below, questions=np.arange(len(asked)).astype(str))
        (whole,), (narrow,) = (replicates([one._replace(below=b)], NAMES) for b in (below, apart))
        both = x.mean(axis=0), y.mean(axis=0)
        measured.append(float(kendall(*both)[0]))
        alone = Replicates(whole.benchmark, whole.downstream)
        for k, noise in enumerate((whole, narrow, alone)):
            found = range_over_items(kendall, *both, noise)
            assert found.low is not None
            assert found.high is not None
            covered[k] += found.low - 1e-9 <= truth <= found.high + 1e-9
    figures = (truth, float(np.mean(measured)), *(covered / worlds).tolist())
    return [f"{of_users:g}", f"{of_questions:g}", *(f"{one:.2f}" for one in figures)]


def coupled(
    sizes: tuple[int, int, float, float, float], *, foretells: bool, worlds: int
) -> list[str]:
    """Return one line of the second table."""
    couples, users, spread, of_users, of_couples = sizes
    kendall, stream = statistics()[0], np.random.default_rng(5)
    reads = np.arange(SCORERS) >= SCORERS // 2
    skill = np.where(reads, np.linspace(-0.3 * spread, spread, SCORERS), 0.0)
    seen = skill.copy()
    if not foretells:
        seen[reads] = stream.permutation(seen[reads])
    truth = float(kendall(seen, skill)[0])
    covered, measured = 0, []
    for _ in range(worlds):
        who = np.array([stream.choice(users, 2, replace=False) for _ in range(couples)])
        shared = stream.normal(0, of_users, (users, SCORERS))[who].mean(axis=1)
        x, y = (
            (level + (shared + stream.normal(0, of_couples, shared.shape)) * reads)
            for level in (seen, skill)
        )
        named = np.char.add("u", who.astype(str))
        below = Downstream(
            benchmark="below", policy="p", samples="s", quality="q", surrogate=False, k=4, n=8,
            values={one: np.repeat(own, 2) for one, own in zip(NAMES, y.T, strict=True)}, rows={},
            users=named.ravel(), questions=np.repeat(np.arange(couples), 2).astype(str),
            mirrors=np.arange(2 * couples) ^ 1,
        )  # fmt: skip
        # Scaled into the range that figures of couples have.
        units = {
            one: Units(own / 20, (named[:, 0], named[:, 1]))
            for one, own in zip(NAMES, x.T, strict=True)
        }
        one = match(Side("above", "mirrored accuracy", units, {}), below)
        assert one is not None
        (noise,) = replicates([one], NAMES)
        both = x.mean(axis=0) / 20, y.mean(axis=0)
        measured.append(float(kendall(*both)[0]))
        found = range_over_items(kendall, *both, noise)
        assert found.low is not None
        assert found.high is not None
        covered += found.low - 1e-9 <= truth <= found.high + 1e-9
    figures = (truth, float(np.mean(measured)), covered / worlds)
    return [*(f"{one:g}" for one in sizes), *(f"{one:.2f}" for one in figures)]


def main() -> None:
    """Print the table."""
    worlds = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    rows = [
        row(*sds, foretells=foretells, worlds=worlds)
        for sds in SPREADS
        for foretells in (True, False)
    ]
    columns = ["sd of users", "of questions", "true τ", "mean measured", "covers",
               "without questions", "as if independent"]  # fmt: skip
    on_couples = [
        coupled(sizes, foretells=foretells, worlds=worlds)
        for sizes in COUPLES
        for foretells in (True, False)
    ]
    named = ["couples", "users", "spread", "sd of users", "of couples", "true τ", "mean measured",
             "covers"]  # fmt: skip
    tables = [
        Table(f"{worlds} worlds each", columns, rows),
        Table("couples, half of the scorers blind", named, on_couples),
    ]
    sys.stdout.write(render(tables, Form.MARKDOWN))


if __name__ == "__main__":
    main()
