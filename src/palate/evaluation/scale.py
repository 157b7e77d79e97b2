"""Confidence of each user's state, on one set of pairs that is the same for all users.

Without this, one ranking held with user-dependent confidence would pass for personalisation in
`shift`; on common pairs confidence alone moves nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from palate.evaluation.context_rows import ContextRows
from palate.records import Scorer, ScorerInfo, Slate
from palate.scorers.personal import Personal
from palate.seeding import digest, shuffled
from palate.stores import Store

COMMON_PAIRS = 200
"""Pairs, the same for all users, on which a user's confidence is measured."""


def state_scales(scorer: Scorer, rows: ContextRows, seed: int, store: Store) -> NDArray[np.float64]:
    """Return, of each row, the root mean square margin of the state it is scored with.

    It is taken over a seeded set of 200 rows' pairs, the same for all states.

    1 where it is 0 or nothing was scored. A scorer to which a user's pairs are costly may say
    `scale_pairs`, as any set that all users share takes confidence out; what it gives is kept in
    the store, so that a finished run needs no model.
    """
    common = _common(rows, seed, getattr(scorer, "scale_pairs", COMMON_PAIRS))
    keys = [rows.user_keys(question, 0).user or "" for question in rows.questions]
    roots = root_margins(scorer, common, sorted(set(keys)), store)
    return np.array([roots[key] for key in keys])


def root_margins(
    scorer: Scorer, common: Sequence[Slate], keys: Sequence[str], store: Store | None = None
) -> Mapping[str, float]:
    """Return the root mean square margin of each user's state on these pairs."""
    info = getattr(scorer, "info", None)
    if store is None or not hasattr(scorer, "scale_pairs") or not isinstance(info, ScorerInfo):
        return dict(zip(keys, map(_root, _scores(scorer, common, keys)), strict=True))
    name = digest("scales", info.fingerprint, [slate.id for slate in common], keys)
    roots: Mapping[str, float] | None = store.documents("scales").get_json(name)
    if roots is None:
        roots = root_margins(scorer, common, keys)
        store.documents("scales").put_json(name, roots)
    return roots


def _scores(
    scorer: Scorer, common: Sequence[Slate], keys: Sequence[str]
) -> Iterator[NDArray[np.float64]]:
    # Of each user, pairs × 2; NaN for what is not scored.
    read = scorer.vectors(common, 2) if isinstance(scorer, Personal) else None
    for key in keys:
        if isinstance(scorer, Personal) and read is not None:
            yield scorer.scores(read, [key or None] * len(common))
        else:
            slates = [slate.replace(user=key or None) for slate in common]
            yield np.array([scores.values for _, scores in scorer.score(slates)], np.float64)


def _root(scores: NDArray[np.float64]) -> float:
    margins = scores[:, 0] - scores[:, 1]
    margins = margins[~np.isnan(margins)]
    root = float(np.sqrt(np.mean(np.square(margins)))) if len(margins) else 0.0
    return root if root > 0 else 1.0


def _common(rows: ContextRows, seed: int, n: int) -> list[Slate]:
    # By content: which pairs are drawn must not depend on the file's order.
    ids = np.array([rows.bare(k).id for k in range(0, len(rows), rows.draws)], dtype="S64")
    names, first = np.unique(ids, return_index=True)
    drawn = shuffled(range(len(names)), "scale", seed)[:n]
    return [rows.bare(int(first[k]) * rows.draws) for k in sorted(drawn)]
