"""The consensus: how often the majority of other users agrees with a user's own vote."""

from __future__ import annotations

from collections import Counter

import numpy as np
from numpy.typing import NDArray

from palate.benchmarks import Dataset
from palate.records import normal_form


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
    users = [p.user_id for p in pairs.pairs]
    cast = [
        (p.normal_key, *map(normal_form, (p.gold.narrative or "", p.chosen, p.rejected)))
        for p in pairs.pairs
    ]
    by_all, by_user = Counter(cast), Counter(zip(users, cast, strict=True))
    credits = np.empty(len(cast))
    for k, (user, vote) in enumerate(zip(users, cast, strict=True)):
        question, narrative, chosen, rejected = vote
        opposite = question, narrative, rejected, chosen
        alike, unlike = (by_all[each] - by_user[user, each] for each in (vote, opposite))
        credits[k] = (np.sign(alike - unlike) + 1) / 2 if alike + unlike else np.nan
    return credits
