"""Does a benchmark predict what users get? Rank agreement with downstream quality."""

from palate.validity.coefficients import validity
from palate.validity.metric_values import METRICS, joined
from palate.validity.result import (
    Coefficients,
    Difference,
    ForecastScore,
    Validity,
    ValiditySummary,
)
