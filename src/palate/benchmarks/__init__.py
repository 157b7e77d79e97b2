"""Declared benchmarks, files, and their mirrored couples."""

from palate.benchmarks.dataset import Dataset, as_mirrored, need_pairs
from palate.benchmarks.registry import (
    Benchmark,
    Data,
    dataset_of,
    find_benchmark,
    list_benchmarks,
    load_benchmark,
    several_data,
    unsplit,
)
from palate.benchmarks.selection import agreements, couple_votes, mirrors, opposite_votes, within
from palate.benchmarks.votes import EvaluatedVotes
from palate.data import LoadOptions
