"""The arithmetic of palate: accuracies, couples, intervals, tests; numbers in, numbers out."""

from palate.metrics.accuracy import (
    OutcomeCounts,
    accuracy,
    accuracy_bounds,
    mirrored_values,
    outcome_counts,
    shift_values,
    strict_accuracy,
)
from palate.metrics.agreement import PositionConsistency, position_consistency
from palate.metrics.calibration import (
    Calibration,
    CalibrationScores,
    calibration,
)
from palate.metrics.clusters import Clusters
from palate.metrics.estimates import Estimate
from palate.metrics.groups import group_gap
from palate.metrics.jackknife import jackknife
from palate.metrics.length import length_controlled
from palate.metrics.losing import LosingShare, losing_share
from palate.metrics.matching import match_opposite
from palate.metrics.means import clustered_mean, macro_mean, paired_difference
from palate.metrics.paired import holm, sign_flip_test, smallest_sign_flip_p
from palate.metrics.power import minimum_detectable_effect
from palate.metrics.ratings import (
    Predictions,
    RankCorrelations,
    cross_fitted_predictions,
    error_saved,
    mean_error,
    rank_correlations,
)
from palate.metrics.users import (
    WorstUsers,
    worst_decile,
)

__all__ = [
    "Calibration",
    "CalibrationScores",
    "Clusters",
    "Estimate",
    "LosingShare",
    "OutcomeCounts",
    "PositionConsistency",
    "Predictions",
    "RankCorrelations",
    "WorstUsers",
    "accuracy",
    "accuracy_bounds",
    "calibration",
    "clustered_mean",
    "cross_fitted_predictions",
    "error_saved",
    "group_gap",
    "holm",
    "jackknife",
    "length_controlled",
    "losing_share",
    "macro_mean",
    "match_opposite",
    "mean_error",
    "minimum_detectable_effect",
    "mirrored_values",
    "outcome_counts",
    "paired_difference",
    "position_consistency",
    "rank_correlations",
    "shift_values",
    "sign_flip_test",
    "smallest_sign_flip_p",
    "strict_accuracy",
    "worst_decile",
]
