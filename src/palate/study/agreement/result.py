"""Agreement as a result: figures of a study's raters, and the items that they disagree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from palate.metrics import Estimate
from palate.records import Record
from palate.runs import RecordResult, ReportedEstimate
from palate.study.agreement.retest import RetestReport
from palate.study.records import Choice

Scale = Literal["nominal", "ordinal", "interval"]


def reported(estimate: Estimate) -> ReportedEstimate:
    """Return a figure over raters and pairs, named so where it has no interval."""
    figure = ReportedEstimate.of(estimate)
    note = figure.note and figure.note.replace("user", "rater").replace("question", "pair")
    return figure.model_copy(update={"note": note})


class Reliability(Record):
    """How far raters agree on choices under one context, or on the ratings of one dimension."""

    of: str
    """The context, or the dimension."""
    answers: int
    percent: ReportedEstimate
    """Mean over units of the share of pairs of raters who agree."""
    alpha: Mapping[Scale, ReportedEstimate]
    """Krippendorff's; of choices, both orders of an item's answers count."""
    gold: ReportedEstimate | None
    """Of choices: how often they are what the row's user chose; without mirrored couples."""


class QualityFinding(Record):
    """Whether raters find chosen and rejected answers equally good in one dimension."""

    dimension: str
    finding: Literal["equivalent", "different", "not shown"]
    """different: the whole 95 % interval lies beyond the margin on one side."""
    difference: ReportedEstimate
    """Rating of the chosen answer less that of the rejected one."""
    p: float | None
    """Of two one-sided tests against the margin."""
    checks: ReportedEstimate
    """On these raters' checks: rating of the answer to the question less that of the other."""
    words: str


class RunAgreement(Record):
    """How often a scorer agrees with a rater, beside how often another rater does."""

    scorer: str
    context: str
    with_rater: ReportedEstimate
    """Over pairs of raters of one item; a tie, or no difference, counts one half."""
    between_raters: ReportedEstimate
    difference: ReportedEstimate
    p: float | None
    p_holm: float | None = None


class Panel(Record):
    """Every figure of some raters."""

    raters: int
    answers: int
    """Without those skipped, checks, and what was asked again."""
    reliability: tuple[Reliability, ...]
    quality: tuple[QualityFinding, ...]
    """Empty where nothing was rated."""
    runs: tuple[RunAgreement, ...]


class AgreementSummary(Record):
    """Everything `palate agreement` prints but the items."""

    study: str
    benchmark: str
    margin: float
    """In points of a rating."""
    most_failed_checks: int | None
    """Who failed more is excluded; None where no plan was read."""
    excluded: int
    """Raters."""
    skipped: int
    """Answers that say nothing; left out."""
    checks: int
    failed: int
    items: int
    panels: tuple[Panel, ...]
    """Without the excluded; then with them, where there are any."""
    retest: RetestReport | None
    """Of items that raters were asked again; without the excluded."""


class ItemAgreement(Record):
    """What raters chose of one item, without the excluded."""

    item: str
    rows: tuple[tuple[str, str], ...]
    """(context, row id) of the benchmark's rows behind it."""
    choices: Mapping[Choice, int]
    disagreement: float | None
    """Share of pairs of raters who chose differently; None below two."""


@dataclass(frozen=True)
class Agreement(RecordResult[AgreementSummary, ItemAgreement]):
    """How far raters agree, and their items, those first that they disagree on most."""

    kind: ClassVar[str] = "agreement"
    content_type, row_type = AgreementSummary, ItemAgreement
