"""What is evaluated: declared benchmarks, files, and their mirrored couples."""

from palate.benchmarks.benchmark import Benchmark, LoadOptions
from palate.benchmarks.dataset import Dataset, need_pairs, vote_of
from palate.benchmarks.mirrors import couple_votes, mirrors
from palate.benchmarks.registry import dataset_of, find_benchmark, list_benchmarks, load_benchmark

__all__ = [
    "Benchmark",
    "Dataset",
    "LoadOptions",
    "couple_votes",
    "dataset_of",
    "find_benchmark",
    "list_benchmarks",
    "load_benchmark",
    "mirrors",
    "need_pairs",
    "vote_of",
]
