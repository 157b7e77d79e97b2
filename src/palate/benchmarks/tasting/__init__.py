"""`tasting`, the bundled benchmark: 48 mirrored couples of 32 fictional users."""

from palate.benchmarks.tasting.tasting import BENCHMARK

__all__ = ["BENCHMARK"]
