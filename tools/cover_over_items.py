"""How often the interval over items covers, where users and questions are noisy for both figures.

    python tools/cover_over_items.py [WORLDS]

20 scorers, 48 questions put to two of 32 users each. What users and questions do to a scorer is the
same for its benchmark figure and its downstream quality. Beside the interval as it is: without the
widening for questions, and with the two figures' noise taken as independent.
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
    sys.stdout.write(render([Table(f"{worlds} worlds each", columns, rows)], Form.MARKDOWN))


if __name__ == "__main__":
    main()
