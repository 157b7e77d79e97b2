"""How confident each user's state is, on one set of pairs that is the same for all users.

Without this, one ranking held with user-dependent confidence would pass for personalisation in
`shift`; on common pairs confidence alone moves nothing.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from palate.evaluation.rows import Rows
from palate.models import cache_folder
from palate.records import Scorer, Slate, Traits
from palate.seeding import canonical_json, digest, shuffled

COMMON_PAIRS = 200


def state_scales(scorer: Scorer, rows: Rows, seed: int) -> NDArray[np.float64]:
    """Return, of each row, the root mean square margin of the state it is scored with.

    It is taken over a seeded set of 200 rows' pairs, the same for all states.

    1 where it is 0 or nothing was scored. A scorer to which a user's pairs are costly may say
    `scale_pairs`, as any set that all users share takes confidence out; what it gives is kept in
    palate's cache, so that a finished run needs no model.
    """
    common = _common(rows, seed, getattr(scorer, "scale_pairs", COMMON_PAIRS))
    keys = [rows.whose(question, 0).user or "" for question in rows.questions]
    roots = root_margins(scorer, common, sorted(set(keys)))
    return np.array([roots[key] for key in keys])


def root_margins(
    scorer: Scorer, common: Sequence[Slate], keys: Sequence[str]
) -> Mapping[str, float]:
    """Return the root mean square margin of each user's state on these pairs."""
    file = _file(scorer, common, keys)
    roots = _kept(file)
    if roots is None:
        roots = {key: _root(scorer, common, key or None) for key in keys}
        if file is not None:
            _keep(file, roots)
    return roots


def _root(scorer: Scorer, common: Sequence[Slate], key: str | None) -> float:
    slates = [slate.replace(user=key) for slate in common]
    margins = [
        first - second
        for _, scores in scorer.score(slates)
        for first, second in [scores.values]
        if first is not None and second is not None
    ]
    root = float(np.sqrt(np.mean(np.square(margins)))) if margins else 0.0
    return root if root > 0 else 1.0


def _file(scorer: Scorer, common: Sequence[Slate], keys: Sequence[str]) -> Path | None:
    traits = getattr(scorer, "traits", None)
    if not hasattr(scorer, "scale_pairs") or not isinstance(traits, Traits):
        return None
    name = digest("scales", traits.fingerprint, [slate.id for slate in common], keys)
    return cache_folder() / "scales" / f"{name[:40]}.json"


def _kept(file: Path | None) -> dict[str, float] | None:
    try:
        return dict(json.loads(file.read_text(encoding="utf-8"))) if file is not None else None
    except (OSError, ValueError):
        return None


def _keep(file: Path, roots: Mapping[str, float]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(canonical_json(roots), encoding="utf-8")
    new.replace(file)


def _common(rows: Rows, seed: int, n: int) -> list[Slate]:
    # By content: which pairs are drawn must not depend on the file's order.
    ids = np.array([rows.bare(k).id for k in range(0, len(rows), rows.draws)], dtype="S64")
    names, first = np.unique(ids, return_index=True)
    drawn = shuffled(range(len(names)), "scale", seed)[:n]
    return [rows.bare(int(first[k]) * rows.draws) for k in sorted(drawn)]
