"""The arithmetic of palate: accuracies, couples, intervals, tests; numbers in, numbers out.

What functions take, where they do not say otherwise: values by row, NaN where a row is unscored and
then left out; `users` and `questions`, ids by row; `clusters`, the user of each row or `Clusters`;
`seed`, of what is drawn. They raise `ValueError` for columns of unequal length, an infinite number,
a value out of its bounds, or a NaN id.
"""

from palate.metrics.accuracy import (
    accuracy,
    accuracy_bounds,
    concordance_values,
    mirrored_values,
    outcome_counts,
    strict_accuracy,
)
from palate.metrics.agreement import rater_agreement
from palate.metrics.calibration import calibration
from palate.metrics.clusters import Clusters
from palate.metrics.equivalence import Equivalence, equivalence, equivalence_power
from palate.metrics.estimates import Estimate, minimum_detectable_effect
from palate.metrics.harmed import harmed_share
from palate.metrics.means import clustered_mean, macro_mean, paired_difference
from palate.metrics.paired import holm, sign_flip_test, sign_flip_tests, smallest_sign_flip_p
from palate.metrics.position_consistency import position_consistency
from palate.metrics.ratings import (
    Predictions,
    cross_fitted_predictions,
    error_reduction,
    isotonic_predictions,
    mean_error,
    rank_correlations,
)
from palate.metrics.two_groups import group_gap, length_controlled
from palate.metrics.users import worst_decile

__all__ = [
    "Clusters",
    "Equivalence",
    "Estimate",
    "Predictions",
    "accuracy",
    "accuracy_bounds",
    "calibration",
    "clustered_mean",
    "concordance_values",
    "cross_fitted_predictions",
    "equivalence",
    "equivalence_power",
    "error_reduction",
    "group_gap",
    "harmed_share",
    "holm",
    "isotonic_predictions",
    "length_controlled",
    "macro_mean",
    "mean_error",
    "minimum_detectable_effect",
    "mirrored_values",
    "outcome_counts",
    "paired_difference",
    "position_consistency",
    "rank_correlations",
    "rater_agreement",
    "sign_flip_test",
    "sign_flip_tests",
    "smallest_sign_flip_p",
    "strict_accuracy",
    "worst_decile",
]
