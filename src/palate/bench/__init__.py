"""Speed, as ratios measured on the same work."""

from palate.bench.decoding import CASES, QUICK_CASES, DecodingBench, bench_decoding
from palate.bench.prefix import PrefixBench, bench_prefix
from palate.bench.work import FULL, QUICK, BenchCase

__all__ = [
    "CASES",
    "FULL",
    "QUICK",
    "QUICK_CASES",
    "BenchCase",
    "DecodingBench",
    "PrefixBench",
    "bench_decoding",
    "bench_prefix",
]
