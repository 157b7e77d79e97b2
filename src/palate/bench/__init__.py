"""Speed, as ratios measured in one process on the same work."""

from palate.bench.plot import plot
from palate.bench.prefix import PrefixBench, as_rows, bench_prefix
from palate.bench.work import FULL, QUICK, Case

__all__ = ["FULL", "QUICK", "Case", "PrefixBench", "as_rows", "bench_prefix", "plot"]
