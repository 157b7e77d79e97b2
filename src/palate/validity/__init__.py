"""Does a benchmark foretell what users get? Rank agreement with downstream quality."""

from palate.validity.downstream_file import Downstream, joined, read_downstream
from palate.validity.figures import METRICS, Figures, benchmark_figures
from palate.validity.foretelling import Foretelling, Rival, Statistics, Validity, validity

__all__ = [
    "METRICS",
    "Downstream",
    "Figures",
    "Foretelling",
    "Rival",
    "Statistics",
    "Validity",
    "benchmark_figures",
    "joined",
    "read_downstream",
    "validity",
]
