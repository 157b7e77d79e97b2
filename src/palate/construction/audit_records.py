"""An audit as a result: what every check says of the rows, and what the checks can see."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from palate.metrics import Ceilings
from palate.records import Record
from palate.runs import Gain, RecordResult, ReportedEstimate


class CheckCount(Record):
    """One check of the rows, in number."""

    name: str
    n_checked: int
    n_failed: int
    needs: str | None
    """What is missing where no row could be checked."""
    verbatim: tuple[int, int] | None
    """Of `quote`: how many evidences are quotations, and how many there are."""


class GapLimit(Record):
    """What gaps were held against."""

    of: Literal["couples", "rows"]
    n: int
    n_above: int
    limit: float | None
    """None where there are no third users to compare with."""
    n_null: int
    """Gaps under third users' rubrics."""


class Sight(Record):
    """How often a filter prefers a text to one that it must see to be worse."""

    filter: Literal["blind", "gap", "rubric"]
    other: str
    won: int
    """Ties are lost, and so is what is unscored."""
    n: int
    low: float | None
    """Lower end of the 95 % Wilson interval; None below 30 rows."""
    high: float | None
    shown: bool
    """Whether the lower end is above ½."""

    @property
    def finding(self) -> str:
        """The same in words."""
        return "shown" if self.shown else "not shown"


class BlindFinding(Record):
    """Whether a scorer that knows nothing of the user is at ½, within 0.05."""

    scorer: str
    accuracy: ReportedEstimate
    finding: Literal["shown", "refuted", "not shown"]
    p: float | None
    words: str


class Standing(Record):
    """The finding of a scorer on these pairs."""

    scorer: str
    context: str
    accuracy: tuple[ReportedEstimate | None, ReportedEstimate | None, ReportedEstimate | None]
    """Shown nothing, the user's, and a stranger's."""
    identity: Gain | None
    finding: str
    on_shared_pairs: float | None
    """Accuracy on the rows whose pairs several users voted on."""
    captured: tuple[float | None, float | None] | None
    """Share of what taste is worth there; an end that is None is open."""


class AuditSummary(Record):
    """Everything `palate audit` prints but the rows."""

    benchmark: str
    rows: int
    undecided: int = 0  # left out
    couples: int
    mirrored: bool
    """True where every row stands in a couple."""
    without_reason: int
    n_kept: int
    """Rows without a reason whose couple has none either."""
    checks: tuple[CheckCount, ...]
    adherence: str | None
    blind: str | None
    gaps: tuple[GapLimit, ...]
    sights: tuple[Sight, ...]
    unseen: tuple[str, ...]
    """Filters that are not shown to see: they count for nothing."""
    without_user: tuple[BlindFinding, ...]
    """Empty where all rows are mirrored: there they are at ½ by law."""
    ceilings: Ceilings
    standings: tuple[Standing, ...]

    @property
    def refuted(self) -> tuple[str, ...]:
        """Scorers that tell the chosen answer without the user."""
        return tuple(blind.scorer for blind in self.without_user if blind.finding == "refuted")


class AuditRow(Record):
    """A row, and why it is not good enough."""

    id: str
    reasons: tuple[str, ...]
    """Checks that it fails, of those that count."""
    details: Mapping[str, str]
    """By check, also of those that count for nothing: what is wrong, without any text of it."""
    clean: bool
    """Whether it has no reason, nor the other row of its couple."""


@dataclass(frozen=True)
class Audit(RecordResult[AuditSummary, AuditRow]):
    """What an audit says of a benchmark and of its rows, in their order."""

    kind: ClassVar[str] = "audit"
    content_type, row_type = AuditSummary, AuditRow

    @property
    def clean(self) -> bool:
        """Whether no row has a reason, and no scorer tells the chosen answer without the user."""
        return not self.summary.refuted and self.summary.without_reason == self.summary.rows
