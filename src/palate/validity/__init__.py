"""Does a benchmark foretell what users get? Rank agreement with downstream quality."""

from palate.validity.coefficients import Coefficients, Difference, Statistics, Validity, validity
from palate.validity.downstream_file import Downstream, joined, read_downstream
from palate.validity.figures import METRICS, Figures, benchmark_figures

__all__ = [
    "METRICS",
    "Coefficients",
    "Difference",
    "Downstream",
    "Figures",
    "Statistics",
    "Validity",
    "benchmark_figures",
    "joined",
    "read_downstream",
    "validity",
]
