"""Does a benchmark predict what users get? Rank agreement with downstream quality."""

from palate.validity.coefficients import validity
from palate.validity.downstream import joined
from palate.validity.metric_values import METRICS
from palate.validity.result import Coefficients, Difference, Validity, ValiditySummary

__all__ = [
    "METRICS",
    "Coefficients",
    "Difference",
    "Validity",
    "ValiditySummary",
    "joined",
    "validity",
]
