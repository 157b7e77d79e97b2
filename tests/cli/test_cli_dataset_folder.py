"""A build's folder `dataset`, evaluated as it lies: one Parquet file beside its card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from command_line import palate
from palate.benchmarks import load_benchmark

DATE = "2022-03-12"


def build(folder: Path, longer: str) -> Path:
    """Write 6 pairs whose chosen, or rejected, response is the longer one."""
    dataset = folder / "dataset"
    dataset.mkdir(parents=True)
    texts = {"chosen": "Green.", "rejected": "Black."}
    rows: list[dict[str, Any]] = [
        {"id": f"r{k}", "user_id": f"u{k}", "question": f"Which tea, {k}?", "date": DATE,
         **texts, longer: f"{texts[longer]} And much of it."}
        for k in range(6)
    ]  # fmt: skip
    types = pa.schema([(name, pa.string()) for name in rows[0]])
    table = pa.Table.from_pylist(rows, schema=types)
    pq.write_table(table, dataset / "test-00000-of-00001.parquet")
    (dataset / "README.md").write_text("# Teas")
    return dataset


def test_two_builds_are_two_benchmarks(tmp_path: Path) -> None:
    for name, longer, accuracy in (("teas", "chosen", "1.000"), ("herbs", "rejected", "0.000")):
        build(tmp_path / "builds" / name, longer)
        words = ("-b", f"builds/{name}/dataset", "-s", "longest", "-o", "runs")
        done = palate("evaluate", *words, cwd=tmp_path)
        assert done.returncode == 0
        assert accuracy in done.stdout
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == ["herbs", "teas"]


def test_the_name_does_not_depend_on_how_the_folder_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = build(tmp_path / "teas", "chosen")
    monkeypatch.chdir(dataset)
    for name in (str(dataset), f"{dataset}/", "./", "../dataset", "../../teas/dataset"):
        read = load_benchmark(name)
        assert (read.name, read.subsets) == ("teas", ("teas",))
        assert {row.date for row in read.rows} == {DATE}
    (dataset.parent / "dataset.jsonl").write_text(
        '{"id": 1, "question": "Tea?", "chosen": "Yes.", "rejected": "No."}\n'
    )
    assert load_benchmark("../dataset.jsonl").name == "dataset", "a file is named after itself"
