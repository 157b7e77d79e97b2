"""Records of runs, gains and tests, as printed and put into JSON. No NaN, null where none."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from palate.metrics import Estimate
from palate.metrics.alarms import Alarm
from palate.records import Record
from palate.runs.noise import Noise, WhereGiven


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


class Summary(WhereGiven):
    """One run in numbers; holds no time, path or version, so equal runs give equal bytes."""

    where_given: ClassVar[frozenset[str]] = frozenset({"noise", "searches_unmatched", "alarms"})

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
    split_texts: int = 0
    """Rows in which an embedder had to split a text."""
    notes: tuple[str, ...] = ()
    alarms: tuple[Alarm, ...] = ()
    """Signs in the numbers that the scorer does not do what it is meant to; baselines have none."""
    noise: Noise | None = None
    """Only of half precision, and of endpoints that were asked again."""


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
