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

Group = Literal["choices", "ratings", "quality", "scorers"]


class Figure(Record):
    """One figure of some raters."""

    group: Group
    of: str
    """The context, the dimension of ratings, or the scorer and its context."""
    measure: str
    estimate: ReportedEstimate
    p: float | None = None
    """Of two one-sided tests against the margin; of scorers against another rater, by Holm."""
    finding: str | None = None
    """Of quality: `equivalent`, `different`, or `not shown` and why."""

    @classmethod
    def make(
        cls, group: Group, of: str, measure: str, estimate: Estimate, **more: float | str | None
    ) -> Figure:
        """Return a figure over raters and pairs, named so where it has no interval."""
        reported = ReportedEstimate.of(estimate)
        note = reported.note and reported.note.replace("user", "rater").replace("question", "pair")
        reported = reported.model_copy(update={"note": note})
        return cls.model_validate(
            {"group": group, "of": of, "measure": measure, "estimate": reported, **more}
        )


class Panel(Record):
    """Every figure of some raters."""

    raters: int
    items: int
    answers: int
    """Without those skipped, checks, and what was asked again."""
    figures: tuple[Figure, ...]


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
