"""What `palate best-of-n --format json` printed: each contestant's quality at one k, row by row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, ValidationError

from palate.errors import ComparisonError, DataError, UsageError
from palate.seeding import canonical_json
from palate.validity.figures import Contestant, Doubles, Figures, Units, figure_of


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
    complete: bool = True
    """No answer was left without score or quality."""

    @property
    def figures(self) -> dict[Contestant, Figures]:
        """Each contestant's mean, and the same without each user."""
        return {one: self._figure(own, self.users) for one, own in self.values.items()}

    def spread(self, contestants: Sequence[Contestant]) -> Doubles:
        """Return by how much the noise is larger than that of users alone, by contestant.

        Rows of one question share their answers, so questions are drawn too. With the jackknife
        variances over users, questions and cells (a user's rows of one question), each of the
        contestants' deviations from their common mean:
        ``√(max(V_user, V_user + V_question − V_cell) / V_user)`` (Cameron, Gelbach and Miller
        2011; `palate.metrics.two_way` for one figure).
        """
        asked = zip(self.users.tolist(), self.questions.tolist(), strict=True)
        cells = np.array([canonical_json(both) for both in asked])
        user, question, cell = (
            self._variance(contestants, labels) for labels in (self.users, self.questions, cells)
        )
        both = np.maximum(user, user + question - cell)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(user > 0, np.sqrt(both / user), 1.0)

    def _variance(self, contestants: Sequence[Contestant], labels: NDArray[np.str_]) -> Doubles:
        found = [self._figure(self.values[one], labels) for one in contestants]
        names = sorted({name for one in found for name in one.without})
        if len(names) < 2:
            return np.zeros(len(found))
        apart = np.array([[one.without.get(n, one.value) - one.value for one in found]
                          for n in names])  # fmt: skip
        apart -= apart.mean(axis=1, keepdims=True)
        variance: Doubles = (len(names) - 1) / len(names) * (apart * apart).sum(axis=0)
        return variance

    def _figure(self, values: Doubles, labels: NDArray[np.str_]) -> Figures:
        there = ~np.isnan(values)
        return figure_of(Units(values[there], (labels[there],)))


class _Read(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class _Samples(_Read):
    n: Annotated[int, Field(ge=1)]
    content: str


class _Entry(_Read):
    scorer: str
    context: str
    oracle: bool
    quality: str
    surrogate: bool
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
        by[key] = replace(first, values={**first.values, **one.values})
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
    return Downstream(
        benchmark=said.benchmark, policy=said.policy, samples=said.samples.content,
        quality=quality, surrogate=any(one.surrogate for one in entries), k=k, n=said.samples.n,
        values=values, rows=dict(zip(said.rows, said.contents, strict=True)),
        users=np.array(said.users), questions=np.array(said.questions),
        complete=not said.unrated.get(quality) and not any(one.unscored for one in entries),
    )  # fmt: skip


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
