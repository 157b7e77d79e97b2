"""Predictive validity as a result: coefficients, comparisons, and who is left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from palate.metrics import AgreementDifference, RankAgreement, RankPower, Reliability
from palate.records import Record, WhereGiven
from palate.runs import Noise, Result, read_content
from palate.uses import CellKey, DownstreamQuality


class ScorerValues(Record):
    """Both values of one scorer under one context."""

    scorer: str
    context: str
    metric_value: float
    downstream_value: float


class Coefficients(Record):
    """Validity coefficients: rank agreement of one metric of a benchmark with one quality."""

    benchmark: str
    metric: str
    downstream: DownstreamQuality
    scorers: tuple[ScorerValues, ...]
    constant: tuple[CellKey, ...]
    """Left out: blind to the user, they are at ½ in both values by the law of couples."""
    n: int
    """Rows (or couples) that the metric rests on: those that count for every scorer."""
    n_largest: int
    """That count for the scorer with the most."""
    smallest: CellKey
    """Who has the fewest."""
    agreements: tuple[RankAgreement, ...]
    p_holm: tuple[float | None, ...] = ()
    """Of each agreement, Holm over the metrics that should predict the same quality."""
    reliability: Reliability | None
    """Of the benchmark's metric."""
    downstream_reliability: Reliability | None
    noise_ceiling: float | None
    """``√(r_x r_y)`` of the two reliabilities: the most that noise leaves to find."""
    power: RankPower
    """What so many scorers can show."""


class Difference(Record):
    """Rank agreement of two metrics with the same quality, over scorers that have both."""

    first: tuple[str, str]
    """Benchmark and metric."""
    second: tuple[str, str]
    downstream: DownstreamQuality
    n: int
    tau: AgreementDifference
    """Of Kendall's τ-b."""
    p_holm: float | None = None
    """Holm over the comparisons of `COMPARED` that are there."""


class NoisyRun(Record):
    """A run in half precision, or of an endpoint that was asked again, and its noise."""

    benchmark: str
    scorer: str
    context: str
    noise: Noise


class ForecastScore(Record):
    """How far forecasts of one measure of quality were off, in the oracle share of the picks."""

    downstream: DownstreamQuality
    scorers: tuple[ScorerValues, ...]
    """What was forecast of each, and what came."""
    blind: int
    """Left out: both are 0 by design."""
    late: int
    """Left out: not shown to be written before a rating."""
    mean_error: float | None
    error_of_zero: float | None
    """Mean absolute error of saying for every scorer that nothing is gained."""
    cover: float | None
    """Share of the 90 % intervals that hold what came."""
    tau: AgreementDifference | None
    """Of forecasts, then of accuracy, with what came; None for fewer than three scorers."""


class ValiditySummary(WhereGiven):
    """Everything `palate validity` prints."""

    where_given: ClassVar[frozenset[str]] = frozenset({"noisy", "forecasts"})

    coefficients: tuple[Coefficients, ...]
    differences: tuple[Difference, ...]
    too_few: tuple[str, ...]
    """Metrics that fewer than three scorers have, and how many do."""
    benchmark_only: tuple[CellKey, ...]
    """Scorers and contexts with a run and no downstream result."""
    downstream_only: tuple[CellKey, ...]
    """Scorers and contexts with a downstream result and no run."""
    context_independent: tuple[str, ...]
    """Scorers that ran under several contexts and did not heed them: each counts once."""
    noisy: tuple[NoisyRun, ...] = ()
    """Runs whose figures hold noise: of half precision, or of replies that change."""
    forecasts: tuple[ForecastScore, ...] = ()
    """By measure, how far forecasts were off."""


class ValidityRow(ScorerValues):
    """One scorer of one coefficient."""

    benchmark: str
    metric: str
    policy: str
    quality: str
    k: int | None


@dataclass(frozen=True)
class Validity(Result):
    """How well benchmark metrics predict downstream quality."""

    kind: ClassVar[str] = "validity"
    content_type, row_type = ValiditySummary, ValidityRow
    summary: ValiditySummary
    folder: Path | None = None

    def lines(self) -> Iterator[str]:
        """Yield, per coefficient and scorer, both values as one line of JSON."""
        for coefficient in self.summary.coefficients:
            named = coefficient.model_dump(include={"benchmark", "metric"})
            named |= coefficient.downstream.model_dump(include={"policy", "quality", "k"})
            for scorer in coefficient.scorers:
                yield ValidityRow(**named, **scorer.model_dump()).model_dump_json()

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a finished result; raises `RunError` where there is none."""
        return cls(read_content(folder, cls.kind, ValiditySummary), folder)
