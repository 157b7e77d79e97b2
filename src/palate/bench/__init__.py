"""Speed, as ratios measured in one process on the same work."""

from palate.bench.prefix import PrefixBench, bench_prefix
from palate.bench.work import FULL, QUICK, BenchCase

__all__ = ["FULL", "QUICK", "BenchCase", "PrefixBench", "bench_prefix"]
