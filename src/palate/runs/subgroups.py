"""Records of subgroups, as printed and put into JSON. No NaN."""

from __future__ import annotations

from palate.records import Record
from palate.runs.summary import ReportedEstimate


class SubgroupEstimate(Record):
    """One group of rows."""

    name: str
    accuracy: ReportedEstimate
    n_pairs: int
    n_users: int
    under_10_users: bool
    """True under ten users: the interval is unreliable, and no gap counts the subgroup."""
    worst_decile: dict[str, float | None]
    """Mean of the group's lowest tenth of users, raw and shrunk."""


class SubgroupGap(Record):
    """The difference in accuracy of two groups, a − b, clustered by user and question."""

    a: str
    b: str
    value: float
    low: float | None
    high: float | None
    n: int
    n_users: int
    p: float | None
    p_holm: float | None
    n_tested: int
    """Gaps that Holm's correction was taken over."""
    note: str | None = None
    """Why there is no interval."""


class SubgroupReport(Record):
    """One run by groups of its rows; on mirrored couples a note and no figures."""

    benchmark: str
    scorer: str
    context: str
    oracle: bool = False
    by: str
    """`subset`, `category`, `month` or `trait:NAME`."""
    groups: tuple[SubgroupEstimate, ...] = ()
    """By name."""
    n_unlabelled: int = 0
    """Rows that name no group."""
    largest_gap: SubgroupGap | None = None
    """Between groups of ten users or more."""
    worst_decile: dict[str, float | None] | None = None
    """Over all users of the run."""
    users_harmed: ReportedEstimate | None = None
    """Share of users whose accuracy is lower than with nothing shown, by a normal model of true
    differences; n counts users of two rows or more, on different questions where shared."""
    note: str | None = None
