"""Speed, as ratios measured in one process on the same work."""

from palate.bench.prefix import PrefixBench, bench_prefix

__all__ = ["PrefixBench", "bench_prefix"]
