"""Declared benchmarks, files, and their mirrored couples."""

from palate.benchmarks.benchmark import Benchmark, LoadOptions
from palate.benchmarks.dataset import Dataset, as_mirrored, need_pairs
from palate.benchmarks.mirrors import couple_votes, mirrors
from palate.benchmarks.registry import dataset_of, find_benchmark, list_benchmarks, load_benchmark
from palate.benchmarks.votes import EvaluatedVotes
from palate.benchmarks.window import within

__all__ = [
    "Benchmark",
    "Dataset",
    "EvaluatedVotes",
    "LoadOptions",
    "as_mirrored",
    "couple_votes",
    "dataset_of",
    "find_benchmark",
    "list_benchmarks",
    "load_benchmark",
    "mirrors",
    "need_pairs",
    "within",
]
