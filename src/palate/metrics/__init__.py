"""The arithmetic of palate: accuracies, couples, intervals, tests; numbers in, numbers out.

What functions take, where they do not say otherwise: values by row, NaN where a row is unscored and
then left out; `users` and `questions`, ids by row; `clusters`, the user of each row or `Clusters`;
`seed`, of what is drawn. They raise `ValueError` for columns of unequal length, an infinite number,
a value out of its bounds, or a NaN id.
"""

from palate.metrics.accuracy import (
    accuracy,
    accuracy_bounds,
    calibration,
    concordance_values,
    outcome_counts,
    position_consistency,
    strict_accuracy,
)
from palate.metrics.ceilings import Ceilings, ceilings
from palate.metrics.clusters import Clusters, effective_number
from palate.metrics.estimates import (
    Equivalence,
    Estimate,
    equivalence,
    equivalence_power,
    minimum_detectable_effect,
    non_inferiority,
    share_of,
)
from palate.metrics.forecasts import ForecastShare, Skill, forecast_shares
from palate.metrics.harmed import harmed_share
from palate.metrics.means import (
    clustered_mean,
    group_gap,
    length_controlled,
    macro_mean,
    paired_difference,
    worst_decile,
)
from palate.metrics.paired import holm, sign_flip_test, sign_flip_tests, smallest_sign_flip_p
from palate.metrics.rank_power import (
    AgreementDifference,
    RankPower,
    Reliability,
    agreement_difference,
    rank_power,
    reliability,
)
from palate.metrics.ranks import RankAgreement, kendall_agreement, rank_agreement
from palate.metrics.ratings import (
    Predictions,
    alignment,
    cross_fitted_predictions,
    error_reduction,
    isotonic_predictions,
    mean_error,
    rank_correlations,
    rater_agreement,
)
from palate.metrics.selection import (
    BestOfCurve,
    BestOfPoint,
    OverOptimisation,
    best_of,
    best_of_curve,
    kl_bound,
    over_optimisation,
    usable,
)
