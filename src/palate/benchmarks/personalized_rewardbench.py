"""Personalized RewardBench (arXiv 2604.07343): three subsets on the hub."""

from __future__ import annotations

from palate.benchmarks.benchmark import Benchmark, LoadOptions, PairSet
from palate.data import Loaded, download, load_pairs
from palate.errors import BenchmarkError
from palate.records import PreferencePair

REPOSITORY = "QiyaoMa/Personalized-RewardBench"
SUBSETS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
FILES = tuple(f"{subset}/test-00000-of-00001.parquet" for subset in SUBSETS)


def _load(options: LoadOptions) -> PairSet:
    if options.source is not None:
        paths, commit = tuple(options.source / name for name in FILES), None
        absent = [str(path) for path in paths if not path.is_file()]
        if absent:
            raise BenchmarkError(f"--source {options.source}: no file {absent[0]}")
    else:
        paths, commit = download(REPOSITORY, FILES, options.revision or "main")
    # A declared benchmark's bad rows are left out, counted and listed.
    parts: list[Loaded] = [
        load_pairs(path, subset=subset, columns=options.columns, skip_bad_rows=True)
        for subset, path in zip(SUBSETS, paths, strict=True)
    ]
    return PairSet(
        name=BENCHMARK.name,
        pairs=tuple(
            _within(pair.subset, pair) for part in parts for pair in part.pairs
        ),
        revision=commit,
        bad_rows=tuple(error for part in parts for error in part.bad_rows),
        unknown_columns=tuple(sorted({name for part in parts for name in part.unknown_columns})),
    )  # fmt: skip


def _within(subset: str, pair: PreferencePair) -> PreferencePair:
    names = {"id": pair.id, "user_id": pair.user_id, "mirror_of": pair.mirror_of}
    return pair.model_copy(
        update={field: name and f"{subset}/{name}" for field, name in names.items()}
    )


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
    homepage=f"https://huggingface.co/datasets/{REPOSITORY}",
    subsets=SUBSETS,
    needs_network=True,
)
