"""Figures of runs, as printed and put into JSON; no NaN. Where p is corrected."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Literal, TypeVar

from palate.metrics import Estimate, holm
from palate.metrics.alarms import Alarm
from palate.records import Record, WhereGiven

R = TypeVar("R", bound=Record)


class Noise(Record):
    """Rows of a run that were computed twice, and what that says of all of its rows."""

    kind: Literal["rounding", "asking again"]
    """Computed in float32 beside half precision, or asked of an endpoint once more."""
    dtype: str | None = None
    """The half precision: `bfloat16` or `float16`."""
    rows: int = 0
    """Rows scored both times; 0 where that was not asked for or could not be done."""
    sd: float | None = None
    """Standard deviation of a margin's error; None where replies change or do not."""
    flips_seen: int = 0
    """Rows of them whose verdict differs."""
    expected_flips: float | None = None
    """Verdicts expected to differ among all scored rows; docs/statistics.md has the formula."""
    note: str | None = None
    """Why nothing was computed twice."""


class ReportedEstimate(Record):
    """A figure with its 95 % interval and the number of units behind it."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    note: str | None = None
    """Why a value has no interval."""

    @classmethod
    def of(cls, estimate: Estimate) -> ReportedEstimate:
        """Take over what tables and JSON need of an estimate."""
        return cls.model_validate(estimate, from_attributes=True)

    def called(self, unit: str, item: str = "question") -> ReportedEstimate:
        """Return it with a note that names users and questions so."""
        note = self.note and self.note.replace("user", unit).replace("question", item)
        return self.model_copy(update={"note": note})


class MemberReport(Record):
    """One member of a panel or mix."""

    name: str
    scorer: str
    accuracy: ReportedEstimate
    """As of a run of the member alone."""
    weight: ReportedEstimate | None = None
    """Of a mix: how often the member's scores count, divided by `scale`."""
    scale: float | None = None


class Members(Record):
    """Whose judgements or scores a panel or mix is made of."""

    by: str
    """`majority`, `share` or `margin`; of a mix `learnt weights` or `given weights`."""
    members: tuple[MemberReport, ...]
    agreement: ReportedEstimate
    """Krippendorff's α of the members' choices, over both orders; n counts rows."""
    learnt: dict[str, int | str] | None = None
    """Of learnt weights, how many past choices (`rows`) of how many `users` they come from, the
    `hash` of all, and how many were `left_out` since a member lacks a score."""


class Summary(WhereGiven):
    """One run in numbers; holds no time, path or version, so equal runs give equal bytes."""

    where_given: ClassVar[frozenset[str]] = frozenset(
        {"noise", "searches_unmatched", "lacking", "alarms", "members", "agreed_of"}
    )

    benchmark: str
    scorer: str
    context: str
    oracle: bool = False
    """True under a context that shows gold: an upper bound, never ranked."""
    protocol: str = "palate"
    models: tuple[str, ...] = ()
    """What the numbers come from: content hashes of model folders, names of served models."""
    n_pairs: int
    n_users: int
    agreed_of: int | None = None
    """Of `--agreed only`: of how many decided pairs these are."""
    accuracy: ReportedEstimate
    """(chosen + ½ ties) / scored; on mirrors over couples, the unit there."""
    strict_accuracy: float | None
    bounds: tuple[float, float] | None
    """Accuracy with every unscored row wrong, and with every one right."""
    ties: int
    unscored: int
    unscored_reasons: dict[str, int] = {}
    mirrored_accuracy: ReportedEstimate | None = None
    concordance: ReportedEstimate | None = None
    subsets: dict[str, ReportedEstimate] = {}
    macro_accuracy: ReportedEstimate | None = None
    """Mean of users' accuracies; not on mirrors."""
    worst_decile: dict[str, float | None] | None = None
    """Mean of the lowest tenth of users, raw and shrunk; not on mirrors."""
    length_controlled: ReportedEstimate | None = None
    """Mean of the accuracies where chosen is longer and where it is shorter."""
    calibration: dict[str, Any] | None = None
    """Brier score, log loss and ECE of scorers whose margins are log-odds."""
    position_consistency: dict[str, Any] | None = None
    """Of judges: how often both orders prefer the same response."""
    clustered_by: str = "user"
    """What intervals are clustered by: `user`, `user and question`, `user and text`."""
    minimum_detectable_effect: float | None = None
    """Minimum detectable difference from 0.5: 80 % power at the 5 % level."""
    undecided_rows: int = 0
    """Rows the user called a tie, left out."""
    bad_rows: int = 0
    parts_dropped: int = 0
    """Shown parts cut because the model's window was too short."""
    leaks_dropped: int = 0
    shortfall_words: int = 0
    searches_unmatched: int | None = None
    """Searches that share no word with any text, so that the latest are shown; None for none."""
    lacking: dict[str, int] | None = None
    """Rows that are shown nothing of this kind, where a context joins several or shows traits."""
    split_texts: int = 0
    """Rows in which an embedder had to split a text."""
    notes: tuple[str, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    """Signs in the numbers that the scorer does not do what it is meant to; baselines have none."""
    noise: Noise | None = None
    """Only of half precision, and of endpoints that were asked again."""
    members: Members | None = None
    """Only of panels and mixes."""


class Gain(WhereGiven):
    """What a context adds over showing nothing (gain) or over a stranger's (identity)."""

    where_given: ClassVar[frozenset[str]] = frozenset({"survival"})

    benchmark: str
    scorer: str
    context: str
    kind: Literal["gain", "identity"]
    against: str
    oracle: bool = False
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    n_users: int = 0
    n_left_out: int = 0
    p: float | None = None
    p_holm: float | None = None
    """Corrected over the gains of a benchmark; None for oracles and baselines."""
    minimum_detectable_effect: float | None = None
    """Minimum detectable gain: 80 % power at the 5 % level, uncorrected."""
    note: str | None = None
    """Why a value has no interval."""
    survival: float | None = None
    """Share of 1,000 redraws of the runs' noise in which the corrected test has the same result;
    only where it is below 5 % and a run has noise."""

    @property
    def state_against(self) -> str | None:
        """Whose state the gain is over, where it is one of states; None for one of contexts."""
        name, equals, state = self.against.partition("&")[0].partition("=")
        return state if equals and name == "state" else None


class RunLabel(Record):
    """One run of a test."""

    scorer: str
    context: str


class Test(WhereGiven):
    """A paired difference between two runs on their common pairs."""

    __test__ = False  # no test class of pytest's
    where_given: ClassVar[frozenset[str]] = frozenset({"survival"})

    benchmark: str
    a: RunLabel
    b: RunLabel
    metric: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    n_users: int
    method: str
    p: float | None
    p_holm: float | None = None
    note: str | None = None
    """Why a value has no interval."""
    survival: float | None = None
    """Share of 1,000 redraws of the runs' noise in which the corrected test has the same result;
    only where it is below 5 % and a run has noise."""

    @property
    def better(self) -> str:
        """The scorer with the higher figure."""
        return (self.a if (self.value or 0) > 0 else self.b).scorer


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
    """`subset`, `category`, `month`, `user` or `trait:NAME`."""
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


class Cost(Record):
    """What a context costs a scorer where nothing is personal, over rows scored both ways."""

    benchmark: str
    scorer: str
    context: str
    nothing: float | None
    """Accuracy shown nothing."""
    shown: ReportedEstimate
    """Accuracy under the context."""
    tax: ReportedEstimate
    """nothing − shown."""
    margin: float
    finding: str
    """`harmless`, `costs`, `costs less` (above 0 and below the margin) or `not shown`."""
    p: float | None
    """Of the one-sided test that the tax is below the margin."""
    n_needed: int | None
    """Where it is not shown: rows that show a tax of 0 to be harmless 8 times of 10."""
    follows: ReportedEstimate | None = None
    """Of rows that were right shown nothing, the share that is wrong under pressure, ties half."""


class RatingBaseline(Record):
    """A prediction of ratings that reads no response, and how much lower the scorer's error is."""

    name: str
    """`user mean` or `global mean`."""
    rating_error: ReportedEstimate
    error_reduction: ReportedEstimate
    """error of the baseline − error of the scorer; positive where the scorer is better."""
    p: float | None
    p_holm: float | None = None


class RatingReport(Record):
    """One run against the ratings of its users; figures are means over users."""

    benchmark: str
    scorer: str
    context: str
    oracle: bool = False
    n_ratings: int
    """Distinct (question, response, user) with a rating and a score; the n of `rating_error`."""
    n_users: int
    n_unrated: int
    """Rows without any rating."""
    n_undecided: int = 0
    """Undecided rows in no figure: they are not rated, or were not scored for their ratings."""
    n_unscored: int
    """Distinct rated responses without a score."""
    n_users_too_few: int
    """Users left out of the correlations: under three distinct ratings."""
    n_users_single: int
    """Users left out of the errors: a single rating, so nothing to predict it from."""
    scale: tuple[float, float] | None = None
    """Lowest and highest rating given, taken for the scale where rows name none; else null."""
    spearman: ReportedEstimate
    """n counts users."""
    kendall: ReportedEstimate
    """τ-b."""
    rating_error: ReportedEstimate
    """Mean |predicted − given| on [0, 1] after each user's cross-fitted isotonic calibration."""
    baselines: tuple[RatingBaseline, ...] = ()
    note: str | None = None


def holm_within(families: Sequence[Hashable], p: Sequence[float | None]) -> list[float | None]:
    """Return each test's p, Holm-corrected over its family; None for one of the family None.

    >>> holm_within(["a", "b", "a", None], [0.01, 0.04, 0.03, 0.001])
    [0.02, 0.04, 0.03, None]
    """
    corrected = {
        family: iter(holm([one for one, of in zip(p, families, strict=True) if of == family]))
        for family in {*families} - {None}
    }
    return [None if family is None else next(corrected[family]) for family in families]


def with_holm(
    records: Sequence[R],
    p: Sequence[float | None],
    families: Sequence[Hashable] | None = None,
    *,
    into: str = "p_holm",
) -> list[R]:
    """Return records with their corrected p; without `families` all are of one."""
    corrected = holm(p) if families is None else holm_within(families, p)
    return [
        record.model_copy(update={into: value})
        for record, value in zip(records, corrected, strict=True)
    ]
