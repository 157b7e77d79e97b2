from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palate.data import content_hash, load_rows
from palate.errors import DataError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

ROWS: list[dict[str, Any]] = [
    {
        "id": f"r{k}", "user_id": f"u{k % 2}", "question": f"Tea {k}?",
        "profile": [{"id": f"p{k}", "category": "tea", "text": f"So {k}.", "date": "2024-01-01"},
                    {"id": f"q{k}", "text": "Unnamed, undated."}],
        "rubric_aspects": [{"aspect": "Strong", "reason": "So they said."}] if k % 3 else [],
        "traits": {"age": "40"} if k % 2 else {"town": "Ghent"},
        "chosen": f"Yes {k}.", "rejected": f"No {k}.", "split": "test",
        **({"narrative": "I am cold.", "chosen_rating": 4.5, "rating_scale": [1, 5]} if k % 2 else
           {"mood": "grim"}),
    }
    for k in range(7)
]  # fmt: skip


def parquet(path: Path, table: Any) -> Path:
    pq.write_table(table, path)
    return path


def test_parquet_and_jsonl_give_the_same_pairs(tmp_path: Path) -> None:
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    table = pa.Table.from_pylist(ROWS, schema=_schema())
    ours, theirs = load_rows(lines), load_rows(parquet(tmp_path / "a.parquet", table))
    assert ours == theirs
    assert content_hash(ours.rows) == content_hash(theirs.rows)
    assert ours.unknown_columns == ("mood",)


def _schema() -> Any:
    text = pa.string()
    post = pa.struct([("id", text), ("category", text), ("text", text), ("date", text)])
    aspect = pa.struct([("aspect", text), ("reason", text), ("evidence", text)])
    return pa.schema(
        [("id", text), ("user_id", text), ("question", text), ("profile", pa.list_(post)),
         ("rubric_aspects", pa.list_(aspect)),
         ("traits", pa.struct([("age", text), ("town", text)])),
         ("chosen", text), ("rejected", text), ("split", text), ("narrative", text),
         ("chosen_rating", pa.float64()), ("rating_scale", pa.list_(pa.int64())), ("mood", text)]
    )  # fmt: skip


def test_rows_are_numbered_over_batches(tmp_path: Path) -> None:
    n = 600
    table = pa.table(
        {"id": range(n), "question": ["Tea?"] * n, "chosen": ["Yes."] * 523 + [""] + ["Yes."] * 76,
         "rejected": ["No."] * n}
    )  # fmt: skip
    path = parquet(tmp_path / "a.parquet", table)
    with pytest.raises(DataError) as caught:
        load_rows(path)
    assert (caught.value.line, caught.value.field) == (524, "chosen")
    assert len(load_rows(path, skip_bad_rows=True).rows) == n - 1


def test_text_that_is_not_utf8_is_a_bad_row(tmp_path: Path) -> None:
    chosen = pa.array([b"Yes.", b"Y\xffs.", b"Yes!"]).view(pa.string())
    table = pa.table(
        {"id": [1, 2, 3], "question": ["Tea?"] * 3, "chosen": chosen, "rejected": ["No."] * 3}
    )
    path = parquet(tmp_path / "a.parquet", table)
    with pytest.raises(DataError) as caught:
        load_rows(path)
    assert (caught.value.line, caught.value.field) == (2, "chosen")
    assert "not UTF-8 (byte 2)" in str(caught.value)
    assert [pair.id for pair in load_rows(path, skip_bad_rows=True).rows] == ["1", "3"]


def test_timestamps_order_posts(tmp_path: Path) -> None:
    import datetime

    posts = [{"id": "late", "text": "b", "date": datetime.datetime(2024, 5, 1)},
             {"id": "soon", "text": "a", "date": datetime.datetime(2023, 5, 1)}]  # fmt: skip
    table = pa.Table.from_pylist(
        [{"id": 1, "question": "Tea?", "chosen": "Yes.", "rejected": "No.", "profile": posts}]
    )
    (pair,) = load_rows(parquet(tmp_path / "a.parquet", table)).rows
    assert [(post.id, post.date) for post in pair.profile] == [
        ("soon", "2023-05-01T00:00:00"), ("late", "2024-05-01T00:00:00"),
    ]  # fmt: skip


@pytest.mark.parametrize("kept", [0, 4, 200, -4])
def test_a_damaged_file_is_refused_in_one_line(tmp_path: Path, kept: int) -> None:
    path = parquet(tmp_path / "a.parquet", pa.Table.from_pylist(ROWS))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(DataError) as caught:
        load_rows(path, skip_bad_rows=True)
    assert str(caught.value).startswith(f"{path}: not a readable Parquet file")
    assert "\n" not in str(caught.value)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["1"]), pa.array(["2"])], names=["id", "id"])
    with pytest.raises(DataError, match=r"a\.parquet: two columns are named 'id'"):
        load_rows(parquet(tmp_path / "a.parquet", table))
