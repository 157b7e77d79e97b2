"""Scorers whose accuracy is known before they are measured.

| name | margin of the first response | truth on mirrors | elsewhere |
|---|---|---|---|
| blind | `d_0` | 1/2, always | `β = F·L + (1 − F)(1 − L)` |
| confident | `k_u d_0`, `k_u > 0` | 1/2, always | `β` |
| knows | `t_u · d` | `F` | `F` |
| hazy, vague | of `knows` with probability `h_u`, else of `blind` | `HF + (1 − H)/2` | `HF + (1 − H)β` |

with F = `FOLLOWS`, L = `LEANS`, H = `CLEAR` = E `h_u`. `hazy` and `vague` know some users well and
others hardly, each its own; they differ by lot alone, so neither gains anything over the other. On
mirrors the margins of `knows` are as large for either user (tastes have length 1), so the truth of
its shift is F too.
"""  # noqa: E501

from __future__ import annotations

import numpy as np

from palate.seeding import rng
from palate.selfcheck.worlds import FOLLOWS, LEANS, Floats, World

CLEAR = 0.6
"""Mean share of a user's rows on which `hazy` and `vague` know them."""
PATCHY = 2.0
"""Concentration of the Beta distribution of those shares."""
HAZY = ("hazy", "vague")


def margins(world: World, seed: int, number: int) -> dict[str, Floats]:
    """Return each scorer's margin of the chosen over the rejected response, by row.

    >>> from palate.selfcheck.worlds import mirrored_world
    >>> found = margins(mirrored_world(0, 0), 0, 0)
    >>> sorted(found), bool(np.all(found["blind"][0::2] == -found["blind"][1::2]))
    (['blind', 'confident', 'hazy', 'knows', 'vague'], True)
    """
    blind = world.differences[:, 0]
    knows = np.einsum("nf,nf->n", world.tastes[world.who], world.differences)
    by_scorer = {
        "blind": blind,
        "confident": confidence(world)[world.who] * blind,
        "knows": knows,
    }
    for name in HAZY:
        stream = rng("selfcheck", name, seed, number, world.mirrored)
        clear = stream.beta(PATCHY * CLEAR, PATCHY * (1 - CLEAR), size=world.names.size)
        by_scorer[name] = np.where(stream.random(blind.size) < clear[world.who], knows, blind)
    return {name: world.sides * first for name, first in by_scorer.items()}


def confidence(world: World) -> Floats:
    """Return `k_u`: larger for the users who like what `blind` likes, so that raw shift is misled.

    `k_u = e^(4 (a_u − L))`.
    """
    return np.asarray(np.exp(4 * (world.leans - LEANS)))


def scales(world: World) -> Floats:
    """Root mean square margin of `confident` for each row's user, over one set of pairs for all.

    What `palate.evaluation.scale.state_scales` finds by asking the scorer.
    """
    common = world.differences[:200, 0]
    root = float(np.sqrt(np.mean(common**2)))
    return np.asarray(confidence(world)[world.who] * root)


def truth(scorer: str, *, mirrored: bool) -> float:
    """Return the accuracy of a scorer over the population that users and rows are drawn from.

    >>> truth("blind", mirrored=True), truth("knows", mirrored=True)
    (0.5, 0.75)
    >>> round(truth("blind", mirrored=False), 3), round(truth("hazy", mirrored=False), 3)
    (0.575, 0.68)
    """
    if scorer == "knows":
        return FOLLOWS
    blind = 0.5 if mirrored else FOLLOWS * LEANS + (1 - FOLLOWS) * (1 - LEANS)
    return CLEAR * FOLLOWS + (1 - CLEAR) * blind if scorer in HAZY else blind
