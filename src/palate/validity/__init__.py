"""Does a benchmark predict what users get? Rank agreement with downstream quality."""

from palate.validity.coefficients import Coefficients, Validity, validity
from palate.validity.differences import COMPARED, Difference, Statistics
from palate.validity.downstream_file import Downstream, joined, read_downstream
from palate.validity.figures import METRICS

__all__ = [
    "COMPARED",
    "METRICS",
    "Coefficients",
    "Difference",
    "Downstream",
    "Statistics",
    "Validity",
    "joined",
    "read_downstream",
    "validity",
]
