from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.data import LoadOptions, load_rows, parse_columns, read_jsonl
from palate.errors import DataError, UsageError
from row_files import as_lines, write


def row(k: int, **changes: Any) -> dict[str, Any]:
    made = {"id": f"r{k}", "question": f"Tea {k}?", "chosen": f"Yes {k}.", "rejected": f"No {k}."}
    return made | changes


def refusal(path: Path, **options: Any) -> DataError:
    with pytest.raises(DataError) as caught:
        load_rows(path, LoadOptions(**options))
    error = caught.value
    assert str(error).startswith(str(path))
    assert "\n" not in str(error)
    return error


@pytest.mark.parametrize(
    ("bad", "field", "problem"),
    [
        ([1], None, "expected an object, got list"),
        ("text", None, "expected an object, got str"),
        (None, None, "expected an object, got NoneType"),
        (row(1, chosen=""), "chosen", "got an empty string"),
        ({"id": "x", "a\nb": 1}, "question", "missing; the row has a b, id (see --map)"),
        (row(0), "id", "'r0' was used in row 1"),
        (row(1, chosen="No 1."), "chosen", "equals `rejected`"),
        (row(1, chosen="a \ud800"), "chosen", "half a surrogate pair"),
    ],
)
def test_a_bad_row_names_file_line_and_field(
    tmp_path: Path, bad: object, field: str | None, problem: str
) -> None:
    path = write(tmp_path / "a.jsonl", [row(0), bad, row(2)])
    error = refusal(path)
    assert (error.file, error.line, error.field) == (str(path), 2, field)
    assert problem in str(error)
    assert str(error).startswith(f"{path}:2: ")
    loaded = load_rows(path, LoadOptions(skip_bad_rows=True))
    assert [pair.id for pair in loaded.rows] == ["r0", "r2"]
    assert [str(left) for left in loaded.bad_rows] == [str(error)]


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (b"{", "not JSON ("),
        (b'{"id": 1,}', "not JSON ("),
        (b'{"id": "\xff"}', "not UTF-8 (byte 9)"),
        (b"[" * 100_000, "not JSON ("),
        (b'{"id": ' + b"9" * 5000 + b"}", "not JSON ("),
    ],
)
def test_a_line_that_is_no_json_is_a_bad_row(tmp_path: Path, raw: bytes, problem: str) -> None:
    path = tmp_path / "a.jsonl"
    lines = [json.dumps(row(0)).encode(), b"", raw, json.dumps(row(3)).encode()]
    path.write_bytes(b"\n".join(lines))
    error = refusal(path)
    assert error.line == 3
    assert problem in str(error)
    loaded = load_rows(path, LoadOptions(skip_bad_rows=True))
    assert [pair.id for pair in loaded.rows] == ["r0", "r3"]


def test_a_byte_order_mark_and_blank_lines_do_not_count(tmp_path: Path) -> None:
    text = json.dumps(row(0)) + "\r\n\r\n   \n" + json.dumps(row(1))
    for start in (b"\xef\xbb\xbf", b"\xef\xbb\xbf\n", b"\n"):
        path = tmp_path / "a.jsonl"
        path.write_bytes(start + text.encode())
        assert [pair.id for pair in load_rows(path).rows] == ["r0", "r1"]
    assert [line for line, _ in read_jsonl(path)] == [2, 5]


@given(st.lists(st.sampled_from(["row", "", "  "]), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_lines_are_counted_as_an_editor_counts_them(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], ending: str
) -> None:
    path = tmp_path_factory.mktemp("lines") / "a.jsonl"
    path.write_bytes(ending.join("{}" if line == "row" else line for line in lines).encode())
    expected = [k for k, line in enumerate(lines, 1) if line == "row"]
    assert [line for line, _ in read_jsonl(path)] == expected


@pytest.mark.parametrize("kept", [0.2, 0.5, 0.98])
def test_a_gzip_cut_short_is_refused_even_where_bad_rows_are_skipped(
    tmp_path: Path, kept: float
) -> None:
    rows = as_lines(row(k, narrative=str(hash(str(k)))) for k in range(500))
    packed = gzip.compress(rows.encode())
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(packed[: int(len(packed) * kept)])
    error = refusal(path, skip_bad_rows=True)
    assert "the gzip stream is damaged or cut short" in str(error)
    assert error.line is not None


def test_what_is_no_gzip_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl.gz", [row(0)])
    assert "damaged or cut short" in str(refusal(path))
    path.write_bytes(gzip.compress(b'{"id": 1}\n') + b"rubbish that is no gzip")
    assert "damaged or cut short" in str(refusal(path, skip_bad_rows=True))


def test_a_line_of_50_megabytes_is_refused_unread(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(0)])
    with path.open("r+b") as file:
        file.truncate(50 * 10**6)  # sparse: zeros without an end of line
    error = refusal(path, skip_bad_rows=True)
    assert (error.line, error.problem) == (
        2, "the line is over 32 MiB; raise --max-line or split the row",
    )  # fmt: skip


def test_the_limit_of_a_line_is_the_callers(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(0), row(1, narrative="x" * 2**20)])
    assert len(load_rows(path, LoadOptions(max_line=2 * 2**20)).rows) == 2
    error = refusal(path, max_line=2**20)
    assert (error.line, "over 1 MiB" in str(error)) == (2, True)


def test_columns_are_mapped(tmp_path: Path) -> None:
    rows = [{"key": k, "prompt": "Tea?", "better": "Yes.", "worse": "No."} for k in range(2)]
    path = write(tmp_path / "a.jsonl", rows)
    columns = {"id": "key", "question": "prompt", "chosen": "better", "rejected": "worse"}
    loaded = load_rows(path, LoadOptions(columns=columns))
    assert [pair.id for pair in loaded.rows] == ["0", "1"]
    assert (loaded.rows[0].chosen, loaded.rows[0].rejected) == ("Yes.", "No.")
    assert (loaded.rows[0].extra, loaded.unknown_columns) == ({}, ())


def test_two_columns_can_be_swapped(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(0)])
    swapped = LoadOptions(columns={"chosen": "rejected", "rejected": "chosen"})
    (pair,) = load_rows(path, swapped).rows
    assert (pair.chosen, pair.rejected) == ("No 0.", "Yes 0.")


def test_a_mapped_column_replaces_the_one_of_that_name(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(0, user_id="old", who="new"), row(1, user_id="old")])
    one, two = load_rows(path, LoadOptions(columns={"user_id": "who"})).rows
    assert (one.user_id, one.extra) == ("new", {})
    assert two.user_id == "r1"  # not "old": that column was not asked for


def test_a_mapped_column_that_is_nowhere_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(0, worker="w"), row(1, worker="w")])
    error = refusal(path, columns={"chosen": "beter"})
    assert (error.line, error.field) == (1, "chosen")
    assert "no column 'beter' (from --map chosen=beter)" in str(error)
    error = refusal(path, columns={"user_id": "wroker"})
    assert (error.line, error.field) == (None, "user_id")
    assert "no row has 'wroker' (from --map user_id=wroker)" in str(error)


def test_map_flags_are_read_or_refused() -> None:
    assert parse_columns(["chosen=a=b"]) == {"chosen": "a=b"}
    for bad in ("chosen", "chosen=", "=better", "better=chosen", ""):
        with pytest.raises(UsageError, match="write palate's column=your column"):
            parse_columns([bad])


def test_unknown_columns_stay_on_the_pair_and_are_named_once(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [row(0, mood="grim", hat=1), row(1, mood="glad", hat=None)])
    loaded = load_rows(path)
    assert loaded.unknown_columns == ("hat", "mood")
    assert [dict(pair.extra) for pair in loaded.rows] == [
        {"mood": "grim", "hat": 1}, {"mood": "glad"},
    ]  # fmt: skip


def test_the_subset_is_the_files_name_unless_told(tmp_path: Path) -> None:
    path = write(tmp_path / "wine.jsonl", [row(0), row(1, subset="red")])
    assert [pair.subset for pair in load_rows(path).rows] == ["wine", "red"]
    assert [pair.subset for pair in load_rows(path, subset="all").rows] == ["all", "red"]


def test_files_that_are_none_say_so(tmp_path: Path) -> None:
    assert "no such file" in str(refusal(tmp_path / "none.jsonl"))
    folder = tmp_path / "folder.jsonl"
    folder.mkdir()
    assert "holds no file of rows" in str(refusal(folder))
    odd = write(tmp_path / "a.xlsx", [row(0)])
    assert "unknown format; expected .jsonl, .ndjson, .json, .csv, .tsv (each also .gz or" in str(
        refusal(odd)
    )


def test_a_file_without_a_usable_row_says_why(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"\n")
    assert refusal(path).problem == "holds no usable row"
    write(path, [row(0, chosen=""), row(1, chosen=3)])
    error = refusal(path, skip_bad_rows=True)
    assert error.problem.startswith("holds no usable row: 2 bad, the first in row 1")
    assert "expected text, got an empty string" in error.problem
    assert error.field == "chosen"
