"""What `palate best-of-n --format json` printed: each contestant's quality at one k, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from palate.errors import ComparisonError, DataError, UsageError
from palate.metrics.estimates import ROUNDING
from palate.metrics.selection.units import Units
from palate.validity.figures import Contestant, Doubles, ScorerTable


@dataclass(frozen=True, eq=False)
class Downstream:
    """Best-of-k quality by contestant, for one measure on one set of samples."""

    benchmark: str
    policy: str
    samples: str
    """Content hash of the answers that were picked from."""
    quality: str
    surrogate: bool
    k: int
    n: int
    """Samples per question."""
    values: Mapping[Contestant, Doubles]
    """Quality of each row's pick; all have the same rows, the others are NaN."""
    rows: Mapping[str, str]
    """Id of each row, in order, and the hash of what it asks and between what."""
    users: NDArray[np.str_]
    """Whose row it is."""
    questions: NDArray[np.str_]
    """Hash of each row's question: rows of one question share answers."""
    mirrors: NDArray[np.int64] | None = None
    """Of a contrast, the number of each row's mirrored row: its units are couples."""
    models: Mapping[Contestant, tuple[str, ...]] = field(default_factory=dict)
    """What each contestant's scores come from, where it is known."""
    complete: bool = True
    """No answer was left without score or quality."""

    @cached_property
    def still(self) -> frozenset[Contestant]:
        """Who has the same value in every row, or couple, as the blind have in a contrast."""
        units = self._units()
        return frozenset(
            name for name, own in self.values.items() if np.ptp(units.values(own)) <= ROUNDING
        )

    def table(self, contestants: Sequence[Contestant]) -> ScorerTable:
        """Return the values of some contestants over rows, or couples, with their clusters."""
        units = self._units()
        values = np.stack([self.values[name] for name in contestants], axis=1)
        return ScorerTable(tuple(contestants), units.values(values), units.clusters)

    def _units(self) -> Units:
        rated = ~np.isnan(next(iter(self.values.values())))
        return Units.of(self.users, self.questions, rated, self.mirrors)


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _Samples(_Read):
    n: Annotated[int, Field(ge=1)]
    content: str


class _Entry(_Read):
    scorer: str
    context: str
    oracle: bool
    models: list[str]
    quality: str
    surrogate: bool
    contrast: bool
    by_row: list[list[FiniteFloat | None]]
    unscored: dict[str, int]


class _Document(_Read):
    """The parts of the document that a ranking needs."""

    schema_: Annotated[Literal[1], Field(alias="schema")]
    kind: Literal["best-of-n"]
    benchmark: str
    policy: str
    samples: _Samples
    ks: Annotated[list[int], Field(min_length=1)]
    rows: Annotated[list[str], Field(min_length=1)]
    users: list[str]
    questions: list[str]
    contents: list[str]
    mirrors: list[str] | None
    unrated: dict[str, dict[str, int]]
    downstream: Annotated[list[_Entry], Field(min_length=1)]


def read_downstream(path: Path, k: int | None = None) -> list[Downstream]:
    """Read the file's measures of quality at k; by default the largest k up to half the samples.

    Where no k from 2 up to half the samples is there, the smallest above 1.

    Raises:
        DataError: for what is no document of best-of-n, or one whose parts do not fit.
        UsageError: for a k that the file does not have, or where it has none above 1: the best of
            one is the same for all scorers.
    """
    said = _read(path)
    n = said.samples.n
    above = [one for one in said.ks if one > 1]
    if k == 1 or not above:
        raise UsageError(
            f"{path}: the best of 1 is the same for every scorer; run best-of-n with a larger --ks"
        )
    if k is not None and k not in said.ks:
        raise UsageError(f"{path}: has no best of {k} (sizes: {', '.join(map(str, said.ks))})")
    asked = k or max((one for one in above if 2 * one <= n), default=min(above))
    return [_measure(said, quality, asked, path) for quality in _qualities(said)]


def joined(found: Sequence[Downstream]) -> list[Downstream]:
    """Return what several files say of the same answers and measure as one.

    Raises `ComparisonError` for a contestant that is there twice, and where answers were left
    without score or quality: each file then rests on other answers.
    """
    by: dict[tuple[str, str, str, str, int], Downstream] = {}
    for one in found:
        key = one.benchmark, one.policy, one.samples, one.quality, one.k
        first = by.setdefault(key, one)
        if first is one:
            continue
        twice = next((name for name in one.values if name in first.values), None)
        if twice is not None:
            raise ComparisonError(
                f"validity: {twice[0]} under {twice[1]} has two downstream results for "
                f"{one.quality}; name each file once"
            )
        if not (first.complete and one.complete) or first.rows != one.rows:
            raise ComparisonError(
                f"validity: two files of {one.quality} on {one.benchmark} rest on different "
                "answers, since some have no score; run best-of-n once with all scorers"
            )
        by[key] = replace(
            first,
            values={**first.values, **one.values},
            models={**first.models, **one.models},
        )
    return list(by.values())


def _measure(said: _Document, quality: str, k: int, path: Path) -> Downstream:
    at = said.ks.index(k)
    entries = [one for one in said.downstream if one.quality == quality and not one.oracle]
    values = {}
    for one in entries:
        column = np.array([np.nan if row[at] is None else row[at] for row in one.by_row])
        if (one.scorer, one.context) in values:
            raise DataError(f"{path}: {one.scorer} under {one.context} is there twice")
        if not np.isnan(column).all():
            values[one.scorer, one.context] = column.astype(np.float64)
    left_out = [np.isnan(own) for own in values.values()]
    if any(bool((one != left_out[0]).any()) for one in left_out):
        raise DataError(f"{path}: {quality}: the scorers are of different rows; run best-of-n anew")
    mirrors = _mirrors(said, path) if any(one.contrast for one in entries) else None
    if mirrors is not None and any(bool((one != one[mirrors]).any()) for one in left_out):
        raise DataError(f"{path}: {quality}: couples of which one row is left out")
    return Downstream(
        benchmark=said.benchmark, policy=said.policy, samples=said.samples.content,
        quality=quality, surrogate=any(one.surrogate for one in entries), k=k, n=said.samples.n,
        values=values,
        models={
            (one.scorer, one.context): tuple(one.models)
            for one in entries
            if (one.scorer, one.context) in values
        },
        rows=dict(zip(said.rows, said.contents, strict=True)),
        users=np.array(said.users), questions=np.array(said.questions),
        mirrors=mirrors,
        complete=not said.unrated.get(quality) and not any(one.unscored for one in entries),
    )  # fmt: skip


def _mirrors(said: _Document, path: Path) -> NDArray[np.int64]:
    number = {row: k for k, row in enumerate(said.rows)}
    found = [number.get(row, -1) for row in said.mirrors or ()]
    fit = len(found) == len(number) and all(
        k >= 0 and found[k] == j and said.users[k] != said.users[j] for j, k in enumerate(found)
    )
    if not fit:
        raise DataError(
            f"{path}: mirrors: not every row names a row of another user that names it; run "
            "best-of-n anew"
        )
    return np.array(found, dtype=np.int64)


def _qualities(said: _Document) -> list[str]:
    return list(dict.fromkeys(one.quality for one in said.downstream if not one.oracle))


def _read(path: Path) -> _Document:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    try:
        said = _Document.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise DataError(
            f"{path}: no document of best-of-n ({where}: {first['msg'].lower()}); make one with "
            "palate best-of-n … --format json"
        ) from error
    n = len(said.rows)
    sides = {"users": said.users, "questions": said.questions, "contents": said.contents}
    for name, side in sides.items():
        if len(side) != n:
            raise DataError(f"{path}: {name}: {len(side)} for {n} rows")
    for one in said.downstream:
        if len(one.by_row) != n or any(len(row) != len(said.ks) for row in one.by_row):
            raise DataError(
                f"{path}: {one.scorer} under {one.context}: by_row is not {n} rows of "
                f"{len(said.ks)} sizes"
            )
    return said
