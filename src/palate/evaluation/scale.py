"""How confident each user's state is, on one set of pairs that is the same for all users.

Without this, one ranking held with user-dependent confidence would pass for personalisation in
`shift`; on common pairs confidence alone moves nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palate.evaluation.rows import Row
from palate.records import Scorer, user_key
from palate.seeding import shuffled

COMMON_PAIRS = 200


def user_scales(scorer: Scorer, rows: Sequence[Row], seed: int) -> dict[str, float]:
    """Return each user's root mean square margin over a seeded set of 200 rows' pairs.

    1 where it is 0 or nothing was scored.
    """
    by_content = {row.slate.without_context().replace(user=None).id: row for row in rows}
    names = shuffled(sorted(by_content), "scale", seed)[:COMMON_PAIRS]
    common = [by_content[name].slate.without_context() for name in sorted(names)]
    users = sorted({row.pair.user_id for row in rows})
    scales = {}
    for user in users:
        slates = [slate.replace(user=user_key(user)) for slate in common]
        margins = [
            first - second
            for _, scores in scorer.score(slates)
            for first, second in [scores.values]
            if first is not None and second is not None
        ]
        root = float(np.sqrt(np.mean(np.square(margins)))) if margins else 0.0
        scales[user] = root if root > 0 else 1.0
    return scales
