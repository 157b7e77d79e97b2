"""Personalized RewardBench (arXiv 2604.07343): three subsets on the hub."""

from __future__ import annotations

from palate.benchmarks.dataset import Dataset
from palate.benchmarks.registry import Benchmark
from palate.data import Account, LoadOptions, load_rows
from palate.records import PreferencePair, Question

REPOSITORY = "QiyaoMa/Personalized-RewardBench"
SUBSETS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
FILES = tuple(f"{subset}/test-00000-of-00001.parquet" for subset in SUBSETS)


def _load(options: LoadOptions) -> Dataset:
    paths, commit = options.files(REPOSITORY, FILES)
    # A declared benchmark's bad rows are left out, counted and listed.
    undated = options.order_as_in_file
    how = LoadOptions(columns=options.columns, skip_bad_rows=True, order_as_in_file=undated)
    parts = [
        load_rows(path, how, subset=subset) for subset, path in zip(SUBSETS, paths, strict=True)
    ]
    account = Account()
    for part in parts:
        account.add(part.account)
    rows = tuple(_within(row) for part in parts for row in part.rows)
    bad = tuple(error for part in parts for error in part.bad_rows)
    unknown = tuple(sorted({name for part in parts for name in part.unknown_columns}))
    return Dataset(BENCHMARK.name, rows, commit, bad, unknown, account=account)


def _within(row: Question) -> Question:
    names = {"id": row.id, "user_id": row.user_id}
    if isinstance(row, PreferencePair) and row.mirror_of:
        names["mirror_of"] = row.mirror_of
    return row.model_copy(update={field: f"{row.subset}/{name}" for field, name in names.items()})


BENCHMARK = Benchmark(
    name="personalized-rewardbench",
    description="2,830 questions of LaMP-QA's users; chosen meets the rubric, rejected avoids it",
    loader=_load,
    licence="Apache-2.0 (dataset card)",
    citation=(
        "@misc{ma2026personalizedrewardbench, title={Personalized RewardBench}, "
        "author={Ma, Qiyao and Gao, Dechen and Cai, Rui and Zhao, Boqi and Zhou, Hanchu and "
        "Zhang, Junshan and Zhao, Zhe}, year={2026}, eprint={2604.07343}, archivePrefix={arXiv}}"
    ),
    subsets=SUBSETS,
)
