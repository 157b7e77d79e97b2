"""Records of a scorer against users' ratings, as printed and put into JSON. No NaN."""

from __future__ import annotations

from palate.records import Record
from palate.runs.summary import ReportedEstimate


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
