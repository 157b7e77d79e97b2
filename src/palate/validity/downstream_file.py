"""What `palate best-of-n --format json` printed: each contestant's quality at one k."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from palate.errors import DataError, UsageError
from palate.validity.figures import Contestant, Figures


class Downstream(NamedTuple):
    """Best-of-k quality by contestant, for one measure on one set of samples."""

    benchmark: str
    policy: str
    quality: str
    surrogate: bool
    k: int
    n: int
    """Samples per question."""
    figures: Mapping[Contestant, Figures]
    one: float
    """Quality of a sample drawn blindly."""
    rows: frozenset[str]
    """Ids of the benchmark's rows."""


def read_downstream(path: Path, k: int | None = None) -> list[Downstream]:
    """Read the file's measures of quality at k; by default the largest k up to half the samples.

    Raises:
        DataError: for what is no document of best-of-n.
        UsageError: for a k that the file does not have.
    """
    said = _read(path)
    ks, n = said["ks"], said["samples"]["n"]
    asked = max((one for one in ks if 2 * one <= n), default=ks[0]) if k is None else k
    if asked not in ks:
        raise UsageError(f"{path}: has no best of {asked} (sizes: {', '.join(map(str, ks))})")
    at, users = ks.index(asked), np.array(said["users"])
    found = []
    for quality in dict.fromkeys(one["quality"] for one in said["downstream"]):
        entries = [one for one in said["downstream"] if one["quality"] == quality]
        figures = {}
        for one in entries:
            if one["oracle"]:
                continue
            column = [row[at] for row in one["by_row"]]
            values = np.array([np.nan if v is None else v for v in column], dtype=np.float64)
            if not np.isnan(values).all():
                figures[one["scorer"], one["context"]] = _figures(values, users)
        found.append(
            Downstream(
                said["benchmark"],
                said["policy"],
                quality,
                bool(entries[0]["surrogate"]),
                asked,
                n,
                figures,
                float(entries[0]["curve"]["random"]["value"] or 0.0),
                frozenset(said["rows"]),
            )
        )
    return found


def _figures(values: np.ndarray, users: np.ndarray) -> Figures:
    there = ~np.isnan(values)
    kept, who = values[there], users[there]
    total, n = float(kept.sum()), len(kept)
    without = {
        str(user): float((total - kept[who == user].sum()) / (n - np.count_nonzero(who == user)))
        for user in np.unique(who)
        if np.count_nonzero(who == user) < n
    }
    return Figures(total / n, without)


def _read(path: Path) -> dict[str, Any]:
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if not isinstance(said, dict) or said.get("kind") != "best-of-n" or said.get("schema") != 1:
        raise DataError(
            f"{path}: no document of best-of-n; make one with palate best-of-n … --format json"
        )
    return said
