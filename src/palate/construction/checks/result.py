"""An audit as a result: what every check says of the rows, and what the checks can see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from palate.construction.checks.row_check import CheckResult
from palate.metrics import Estimate, equivalence
from palate.records import Record
from palate.runs import Gain, RecordResult, ReportedEstimate

Seen = Literal["shown", "not shown"]


class CheckCount(Record):
    """One check of the rows, in number."""

    name: str
    n_checked: int
    n_failed: int
    needs: str | None = None
    """What is missing where no row could be checked."""
    counts: bool = True
    """False where it was not shown to see, so that no row has it as a reason."""
    verbatim: tuple[int, int] | None = None
    """Of `quote`: how many evidences are quotations, and how many there are."""

    @classmethod
    def of(cls, check: CheckResult, counts: bool) -> CheckCount:
        """Count what a check says."""
        return cls(
            name=check.name,
            n_checked=check.n_checked,
            n_failed=sum(detail is not None for detail in check.details),
            needs=check.needs,
            counts=counts,
            verbatim=check.verbatim,
        )


class GapLimit(Record):
    """What gaps were held against."""

    of: Literal["couples", "rows"]
    n: int
    n_above: int
    limit: float | None
    """What a gap must be above; None where there are no third users."""
    n_null: int
    """Gaps under third users' rubrics."""
    mean: float | None


class Sight(Record):
    """How often a filter prefers a text to one that it must see to be worse."""

    filter: Literal["blind", "gap", "rubric"]
    sees: str
    """What it is held against."""
    won: int
    """Ties are lost, and so is what is unscored."""
    n: int
    low: float | None
    """Lower end of the 95 % Wilson interval; None below 30 rows."""
    high: float | None
    finding: Seen
    """shown: the lower end is above ½."""


class BlindFinding(Record):
    """What a scorer that knows nothing of the user makes of the pairs."""

    scorer: str
    accuracy: ReportedEstimate
    finding: Literal["shown", "refuted", "not shown"]
    """Whether it is at ½, within 0.05."""
    p: float | None
    words: str

    @classmethod
    def of(cls, scorer: str, estimate: Estimate) -> BlindFinding:
        """Hold an accuracy against ½."""
        tested = equivalence(estimate)
        return cls(
            scorer=scorer,
            accuracy=ReportedEstimate.of(estimate),
            finding=tested.finding,
            p=tested.p,
            words=tested.words("pairs"),
        )


class Standing(Record):
    """The finding of a scorer on these pairs."""

    scorer: str
    context: str
    accuracy: ReportedEstimate
    nothing: ReportedEstimate | None
    """Shown nothing, or with the state of nobody."""
    stranger: ReportedEstimate | None
    identity: Gain | None
    finding: str


class AuditSummary(Record):
    """Everything `palate audit` prints."""

    benchmark: str
    rows: int
    couples: int
    mirrored: bool
    """True where every row stands in a couple."""
    without_reason: int
    kept: int
    """Rows without a reason whose couple has none either."""
    checks: tuple[CheckCount, ...]
    adherence: str | None
    blind: str | None
    gaps: tuple[GapLimit, ...]
    sights: tuple[Sight, ...]
    unseen: Mapping[str, str]
    """By filter that counts for nothing: why."""
    without_user: tuple[BlindFinding, ...]
    """Empty where all rows are mirrored: there they are at ½ by law."""
    standings: tuple[Standing, ...]

    @property
    def refuted(self) -> tuple[str, ...]:
        """Scorers that tell the chosen answer without the user."""
        return tuple(each.scorer for each in self.without_user if each.finding == "refuted")


class AuditRow(Record):
    """A row, and why it is not good enough."""

    id: str
    reasons: tuple[str, ...]
    """Checks that it fails, in their order, of those that count."""
    details: Mapping[str, str]
    """By check, also of those that count for nothing: what is wrong, without any text of it."""
    kept: bool
    """Whether the row, and its couple's other one, are without a reason."""


@dataclass(frozen=True)
class Audit(RecordResult[AuditSummary, AuditRow]):
    """What an audit says of a benchmark and of its rows, in their order."""

    kind: ClassVar[str] = "audit"
    content_type, row_type = AuditSummary, AuditRow

    @property
    def clean(self) -> bool:
        """Whether no row has a reason, and no scorer tells the chosen answer without the user."""
        return not self.summary.refuted and self.summary.without_reason == self.summary.rows
