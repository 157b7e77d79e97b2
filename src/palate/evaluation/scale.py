"""How confident each user's state is, on one set of pairs that is the same for all users.

Without this, one ranking held with user-dependent confidence would pass for personalisation in
`shift`; on common pairs confidence alone moves nothing.
"""

from __future__ import annotations

import numpy as np

from palate.evaluation.rows import Rows
from palate.records import Scorer, Slate
from palate.seeding import shuffled

COMMON_PAIRS = 200


def user_scales(scorer: Scorer, rows: Rows, seed: int) -> dict[str, float]:
    """Return each user's root mean square margin over a seeded set of 200 rows' pairs.

    1 where it is 0 or nothing was scored. A scorer to which a user's pairs are costly may say
    `scale_pairs`: any set that all users share takes confidence out.
    """
    common = _common(rows, seed, getattr(scorer, "scale_pairs", COMMON_PAIRS))
    users = sorted({pair.user_id for pair in rows.pairs})
    scales: dict[str, float] = {}
    of_key: dict[str | None, float] = {}
    for user in users:
        key = rows.whose(user)
        if key in of_key:
            scales[user] = of_key[key]
            continue
        slates = [slate.replace(user=key) for slate in common]
        margins = [
            first - second
            for _, scores in scorer.score(slates)
            for first, second in [scores.values]
            if first is not None and second is not None
        ]
        root = float(np.sqrt(np.mean(np.square(margins)))) if margins else 0.0
        scales[user] = of_key[key] = root if root > 0 else 1.0
    return scales


def _common(rows: Rows, seed: int, n: int) -> list[Slate]:
    # By content: which pairs are drawn must not depend on the file's order.
    ids = np.array([rows.bare(row).id for row in range(len(rows))], dtype="S64")
    names, first = np.unique(ids, return_index=True)
    drawn = shuffled(range(len(names)), "scale", seed)[:n]
    return [rows.bare(int(first[k])) for k in sorted(drawn)]
