"""What the others say: how often the majority of other users agrees with a user's own vote."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Dataset


def majority_of_others(pairs: Dataset) -> NDArray[np.float64]:
    """Return each pair's credit (n): 1 where most other users chose the same, ½ for a tie, else 0.

    NaN where nobody else was asked. It has read the other users' answers to the very pair, which
    no reward model has: a yardstick, no scorer. On mirrored couples alone it means nothing,
    since leaving out the user's own vote tips every close majority against it.

    >>> from palate.records import PreferencePair
    >>> votes = [("ann", "a", "b"), ("bob", "a", "b"), ("cy", "b", "a")]
    >>> rows = [
    ...     PreferencePair(id=who, user_id=who, text="?", chosen=c, rejected=r)
    ...     for who, c, r in votes
    ... ]
    >>> majority_of_others(Dataset("votes", tuple(rows))).tolist()
    [0.5, 0.5, 0.0]
    """
    chosen = Counter((p.text, p.gold.narrative, p.chosen, p.rejected) for p in pairs.pairs)
    by_user = Counter(
        (p.user_id, p.text, p.gold.narrative, p.chosen, p.rejected) for p in pairs.pairs
    )
    votes = np.empty(len(pairs.pairs))
    for k, p in enumerate(pairs.pairs):
        same, other = (p.chosen, p.rejected), (p.rejected, p.chosen)
        asked = (p.text, p.gold.narrative)
        alike = chosen[(*asked, *same)] - by_user[(p.user_id, *asked, *same)]
        unlike = chosen[(*asked, *other)] - by_user[(p.user_id, *asked, *other)]
        votes[k] = (np.sign(alike - unlike) + 1) / 2 if alike + unlike else np.nan
    return votes
