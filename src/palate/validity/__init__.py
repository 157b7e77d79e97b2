"""Does a benchmark predict what users get? Rank agreement with downstream quality."""

from palate.validity.coefficients import validity
from palate.validity.differences import COMPARED, Statistics
from palate.validity.downstream import Downstream, downstream_of
from palate.validity.metric_values import METRICS
from palate.validity.result import (
    Coefficients,
    Difference,
    DownstreamQuality,
    Validity,
    ValiditySummary,
)

__all__ = [
    "COMPARED",
    "METRICS",
    "Coefficients",
    "Difference",
    "Downstream",
    "DownstreamQuality",
    "Statistics",
    "Validity",
    "ValiditySummary",
    "downstream_of",
    "validity",
]
