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
from palate.metrics.agreement import PositionConsistency, position_consistency, wilson
from palate.metrics.calibration import (
    Calibration,
    CalibrationScores,
    brier,
    calibration,
    expected_calibration_error,
    fit_temperature,
    log_loss,
)
from palate.metrics.clustered import effective_units, macro_mean, user_mean
from palate.metrics.dyadic import couple_mean
from palate.metrics.estimates import Estimate
from palate.metrics.groups import group_gap
from palate.metrics.length import LengthControlled, length_controlled
from palate.metrics.losing import LosingShare, losing_share
from palate.metrics.matching import match_opposite
from palate.metrics.paired import (
    holm,
    paired_couple_difference,
    paired_difference,
    sign_flip_test,
    smallest_sign_flip_p,
)
from palate.metrics.power import minimum_detectable_effect
from palate.metrics.ratings import (
    Predictions,
    RankCorrelations,
    cross_fitted_predictions,
    error_saved,
    isotonic_predictions,
    mean_alignment,
    mean_error,
    rank_correlations,
)
from palate.metrics.users import (
    UserAccuracies,
    WorstUsers,
    user_accuracies,
    worst_decile,
)

__all__ = [
    "Calibration",
    "CalibrationScores",
    "Estimate",
    "LengthControlled",
    "LosingShare",
    "OutcomeCounts",
    "PositionConsistency",
    "Predictions",
    "RankCorrelations",
    "UserAccuracies",
    "WorstUsers",
    "accuracy",
    "accuracy_bounds",
    "brier",
    "calibration",
    "couple_mean",
    "cross_fitted_predictions",
    "effective_units",
    "error_saved",
    "expected_calibration_error",
    "fit_temperature",
    "group_gap",
    "holm",
    "isotonic_predictions",
    "length_controlled",
    "log_loss",
    "losing_share",
    "macro_mean",
    "match_opposite",
    "mean_alignment",
    "mean_error",
    "minimum_detectable_effect",
    "mirrored_values",
    "outcome_counts",
    "paired_couple_difference",
    "paired_difference",
    "position_consistency",
    "rank_correlations",
    "shift_values",
    "sign_flip_test",
    "smallest_sign_flip_p",
    "strict_accuracy",
    "user_accuracies",
    "user_mean",
    "wilson",
    "worst_decile",
]
