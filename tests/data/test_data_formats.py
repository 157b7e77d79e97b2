from __future__ import annotations

import csv
import datetime
import gzip
import io
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.data import FileReading, LoadOptions, content_hash, load_rows, one_data_set, read_rows
from palate.errors import DataError, UsageError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COLUMNS = (
    "id", "user_id", "question", "chosen", "rejected", "reference", "profile", "traits",
    "responses", "rating_scale", "mood",
)  # fmt: skip
LINE = b'{"id": "r1", "question": "Tea?"}'


def zstd(raw: bytes) -> bytes:
    packed = pa.BufferOutputStream()
    with pa.CompressedOutputStream(packed, "zstd") as stream:
        stream.write(raw)
    return bytes(packed.getvalue().to_pybytes())


def json_lines(rows: list[dict[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def json_list(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps(rows, indent=1, ensure_ascii=False).encode()


def json_object(rows: list[dict[str, Any]]) -> bytes:
    return json.dumps({"about": {"n": [{"x": 1}]}, "rows": rows, "tags": ["a"]}).encode()


def cells(separator: str, ending: str) -> Callable[[list[dict[str, Any]]], bytes]:
    def write(rows: list[dict[str, Any]]) -> bytes:
        text = io.StringIO()
        # With ends of LF alone the writer leaves a CR in a cell without quotes.
        quoting: Any = csv.QUOTE_MINIMAL if ending == "\r\n" else csv.QUOTE_ALL
        writer = csv.writer(text, delimiter=separator, lineterminator=ending, quoting=quoting)
        writer.writerow(COLUMNS)
        for row in rows:
            values = [row.get(name) for name in COLUMNS]
            writer.writerow([json.dumps(v) if isinstance(v, list | dict) else v for v in values])
        return text.getvalue().encode("utf-8-sig" if ending == "\r\n" else "utf-8")

    return write


TEXTS = {
    "a.jsonl": json_lines, "a.ndjson": json_lines, "a.json": json_list, "b.json": json_object,
    "a.csv": cells(",", "\r\n"), "b.csv": cells(",", "\n"), "a.tsv": cells("\t", "\n"),
    # Named as the other of the two: read as what they are.
    "b.jsonl": json_list,
}  # fmt: skip
CUT = "gzip stream is damaged or cut short"
PACKING: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".zst": zstd}

text = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20
)
posts = st.lists(st.fixed_dictionaries({"id": text, "text": text}), min_size=1, max_size=3)
rows = st.lists(
    st.fixed_dictionaries(
        {"id": text, "question": text, "chosen": text, "rejected": text},
        optional={
            "user_id": text, "reference": text, "profile": posts, "mood": text,
            "traits": st.fixed_dictionaries({"age": text}, optional={"town": text}),
            "responses": st.lists(text, min_size=1, max_size=3),
            "rating_scale": st.just([1, 5]),
        },
    ),
    min_size=1, max_size=5,
)  # fmt: skip


def without_none(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: without_none(part) for name, part in value.items() if part is not None}
    return [without_none(part) for part in value] if isinstance(value, list) else value


def read(path: Path, **options: Any) -> list[Any]:
    return [without_none(row) for _, row in read_rows(path, FileReading(**options))]


@given(rows)
@settings(max_examples=20)
def test_rows_written_in_any_format_read_back(
    tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]]
) -> None:
    folder = tmp_path_factory.mktemp("formats")
    for name, write in TEXTS.items():
        for packed, pack in PACKING.items():
            path = folder / f"{name}{packed}"
            path.write_bytes(pack(write(made)))
            assert read(path) == made, path.name
    table = pa.Table.from_pylist([{name: row.get(name) for name in COLUMNS} for row in made])
    for codec in ("none", "gzip", "zstd"):
        path = folder / f"{codec}.parquet"
        pq.write_table(table, path, compression=codec)
        assert read(path) == made, path.name


@given(rows, st.integers(1, 3))
@settings(max_examples=25)
def test_a_folder_of_shards_is_its_files_in_order_of_their_names(
    tmp_path_factory: pytest.TempPathFactory, made: list[dict[str, Any]], n: int
) -> None:
    folder = tmp_path_factory.mktemp("shards")
    made = [{"user_id": "ann", **row} for row in made]  # shards are of users, or none is
    for k in range(n):
        part = json_lines(made[k::n]) + b"\n"
        path = folder / f"votes-{k:05d}-of-{n:05d}.jsonl{'.gz' if k == 1 else ''}"
        path.write_bytes(gzip.compress(part, mtime=0) if k == 1 else part)
    (folder / "README.md").write_text("beside")
    found = read_rows(folder)
    numbered = list(found)
    assert [row for _, row in numbered] == [row for k in range(n) for row in made[k::n]]
    numbers = [number for number, _ in numbered]
    assert numbers == sorted(set(numbers))
    places = [found.place(number) for number in numbers]
    assert places == [
        (str(file), line) for file in sorted(folder.glob("votes*")) for line, _ in read_rows(file)
    ]


def test_a_bad_row_of_a_folder_is_named_by_its_file(tmp_path: Path) -> None:
    row = {"id": "a", "question": "Tea?", "chosen": "Yes.", "rejected": "No."}
    (tmp_path / "t-0.jsonl").write_bytes(json_lines([row, row | {"id": "b"}]))
    (tmp_path / "t-1.jsonl").write_bytes(json_lines([row | {"id": "c"}, row]))
    with pytest.raises(DataError) as caught:
        load_rows(tmp_path)
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "t-1.jsonl"), 2)
    assert f"'a' was used in {tmp_path / 't-0.jsonl'}:1" in str(caught.value)
    loaded = load_rows(tmp_path, LoadOptions(skip_bad_rows=True))
    assert [(row.id, row.subset) for row in loaded.rows] == [
        (name, tmp_path.name) for name in "abc"
    ]


REFUSED = [
    ("a.csv", b"a,b\n1,2,3\n", "a.csv:2: 3 cells, where the header has 2"),
    ("a.csv", b"a,b\n1,2\n\n4\n", "a.csv:4: 1 cells, where the header has 2"),
    ("a.csv", b"a,b,a\n1,2,3\n", "a.csv:1: two columns of the header are named 'a'"),
    ("a.csv", b",b\n0,2\n", "a.csv:1: column 1 has no name in the header"),
    ("a.csv", b'a,b\n"x\n",2\n"1,2\n3,4\n', "a.csv:4: a quote that opens in this row is not"),
    ("a.csv", b'a,b\n"x"y,2\n', "a.csv:2: not CSV (',' expected after '\"')"),
    ("a.csv", b"a,b\r1,2\r", "a.csv:1: lines end in CR alone"),
    ("a.csv", b"a,b\n1,2\n1\r,2\n", "a.csv:3: a CR outside of quotes; quote such cells"),
    ("a.csv", b"a,b\n1,\x002\n", "a.csv:2: `b`: holds a NUL byte"),
    ("a.csv", "a,b\n1,2\ncafé,2\n".encode("latin-1"),
     "a.csv:3: not UTF-8 (byte 4), perhaps Windows-1252 or Latin-1; palate reads UTF-8: iconv -f "
     "WINDOWS-1252 -t UTF-8 a.csv > a.utf8.csv"),
    ("a.csv", "a,b\n1,2\n".encode("utf-16"), "seems to be UTF-16; palate reads UTF-8: iconv"),
    ("a.tsv", "a\tb\n".encode("utf-16-le"), "seems to be UTF-16LE"),
    ("a.json", "[]  ".encode("utf-16-be"), "seems to be UTF-16BE"),
    ("a.jsonl", "{} ".encode("utf-32"), "seems to be UTF-32"),
    ("a.csv", b"a,b\n" + b"x" * 2**20 + b",2\n", "a.csv:2: the row is over 0.5 MiB"),
    ("a.csv", b'a,b\n"' + b"x\n" * 2**20, "a.csv:2: the row is over 0.5 MiB"),
    ("a.csv", b'profile,b\n"[{\'id\': 1}]",2\n', "a.csv:2: `profile`: not JSON"),
    ("a.csv", b"profile,b\n" + b"[" * 100_000 + b",2\n", "a.csv:2: `profile`: not JSON"),
    ("a.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-6], CUT),
    ("a.json.gz", gzip.compress(b"[" + LINE + b"]", mtime=0)[:-6], CUT),
    ("a.json", b"[" + LINE, "a.json:1: cut short: the file ends where a comma or ] is"),
    ("a.json", b"[" + LINE[:-5], "a.json:1: cut short: the file ends within a value"),
    ("a.json", b"[" + LINE + b",]", "a.json:1: not JSON (expected a value after the comma, got"),
    ("a.json", b"[" + LINE + LINE + b"]", "a.json:1: not JSON (expected a comma or ], got '{')"),
    ("a.json", b"[" + LINE + b"] 1", "not JSON (expected the end of the file, got '1')"),
    ("a.json", b"\x00[]\n", "not JSON (expected a list of objects, or an object with one, got"),
    ("a.json", b'"tea"', "not JSON (expected a list of objects, or an object with one, got"),
    ("a.json", b'[{"a":"\x00"}]', "a.json:1: not JSON (Invalid control character"),
    ("a.json", b"[" * 100_000, "a.json:1: cut short"),
    ("a.json", b"[" + b"[" * 100_000 + b"]" * 100_000 + b"]", "a.json:1: not JSON (maximum recur"),
    ("a.json", b'[{"id": ' + b"9" * 5000 + b"}]", "a.json:1: not JSON (Exceeds the limit (4300"),
    ("a.json", b'[{"id": "\xff"}]', "a.json:1: not UTF-8 (byte 9)"),
    ("a.json", b'[{"id": "' + b"x" * 2**20 + b'"}]', "a.json:1: the element is over 0.5 MiB"),
    ("a.json", b'{"a": [' + LINE + b'], "b": [' + LINE + b"]}", "two lists of objects, 'a' and"),
    ("a.json", LINE, "an object without a list of rows"),
    ("a.json", b'{"id": 1, "profile": [' + LINE + b"]}", "an object without a list of rows"),
    ("a.json", b'{"a" 1}', "not JSON (expected a colon, got '1')"),
    ("a.json", b"{1: 2}", "not JSON (expected a name in quotes"),
]  # fmt: skip


def problem(path: Path, **options: Any) -> str:
    """Return the first error that reading gives, raised or of a row."""
    try:
        rows = read_rows(path, FileReading(**options))
        error = next(row for _, row in rows if isinstance(row, DataError))
    except DataError as raised:
        error = raised
    assert "\n" not in str(error)
    return str(error)


@pytest.mark.parametrize(("name", "raw", "says"), REFUSED)
def test_what_cannot_be_read_is_named_in_one_line(
    tmp_path: Path, name: str, raw: bytes, says: str
) -> None:
    path = tmp_path / name
    path.write_bytes(raw)
    assert says in problem(path, max_line=2**19)


@pytest.mark.parametrize("end", [1, 4, 30, 100])
def test_zstandard_that_is_cut_short_or_none_is_refused(tmp_path: Path, end: int) -> None:
    path = tmp_path / "a.csv.zst"
    path.write_bytes(zstd(b"a,b\n" + b"".join(b"%d,%d\n" % (k, k * k) for k in range(999)))[:-end])
    assert "the Zstandard stream is damaged or cut short (" in problem(path)
    path.write_bytes(b"a,b\n1,2\n")
    assert "the Zstandard stream is damaged or cut short (" in problem(path)


def test_zstandard_without_its_extra_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a.csv.zst").write_bytes(b"")
    with pytest.raises(UsageError, match=r"Zstandard needs pip install 'palate\[hub\]'"):
        list(read_rows(tmp_path / "a.csv.zst"))


def test_a_bad_element_is_a_bad_row_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(b'[{"id": 1,}, 7, {"id": 2}, {"id": ' + b"9" * 5000 + b'}, {"id": NaN}]')
    values = [row for _, row in read_rows(path)]
    assert [type(value) for value in values] == [DataError, int, dict, DataError, dict]
    assert [number for number, _ in read_rows(path)] == [1, 2, 3, 4, 5]


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
), st.integers(1, 40), st.sampled_from([None, 0, 1]))  # fmt: skip
@settings(max_examples=60)
def test_elements_are_told_apart_wherever_a_read_ends(
    tmp_path_factory: pytest.TempPathFactory, value: Any, chunk: int, indent: int | None
) -> None:
    path = tmp_path_factory.mktemp("elements") / "a.json"
    made = [value, {"x": value}, [value], "]", {"]}\\": '"'}]
    path.write_text(json.dumps(made, indent=indent, ensure_ascii=False), errors="surrogatepass")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("palate.data.json_array.CHUNK", chunk)
        assert [row for _, row in read_rows(path)] == made


@pytest.mark.parametrize(
    ("name", "raw", "says"),
    [("a.jsonl", b"\n [" + LINE + b"]", "holds one JSON list, and is read as such"),
     ("a.json", b"\n" + LINE + b"\n\n" + LINE, "holds JSON Lines, and is read as such"),
     ("a.csv", b"id;question\nr1;Tea?", "separated by semicolons, read as such"),
     ("a.tsv", b"id,question\nr1,Tea?", "separated by commas, read as such")],
)  # fmt: skip
def test_another_form_than_the_name_says_is_read_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, raw: bytes, says: str
) -> None:
    path = tmp_path / name
    path.write_bytes(raw)
    with caplog.at_level(logging.WARNING, "palate"):
        assert read(path)[0] == json.loads(LINE)
    assert caplog.messages == [f"{path}: {says}"]


def test_cells_of_mapped_columns_are_decoded(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(
        b"id,question,chosen,rejected,posts,mood\r\n"
        b'1,Tea?,"Yes,\r\nor so.",No.,"[{""id"": ""p"",\r\n""text"": ""So.""}]",[grim]\r\n'
    )
    (row,) = load_rows(path, LoadOptions(columns={"profile": "posts"})).rows
    assert [(post.id, post.text) for post in row.profile] == [("p", "So.")]
    assert (row.chosen, dict(row.extra)) == ("Yes,\r\nor so.", {"mood": "[grim]"})


def test_a_cell_may_be_as_long_as_a_row(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(f"a,b\n{'x' * 200_000},2\n")  # the csv module's limit is 131,072
    assert len(read(path)[0]["a"]) == 200_000


@pytest.mark.parametrize(
    ("names", "part", "taken"),
    [(["train.jsonl", "README.md", ".x.jsonl", "_x/a.jsonl"], "", ["train.jsonl"]),
     (["data/train-00001-of-00002-ab12.parquet", "data/train-00000-of-00002-ff.parquet"], "",
      ["data/train-00000-of-00002-ff.parquet", "data/train-00001-of-00002-ab12.parquet"]),
     (["data/test-0.parquet", "data/train-0.parquet"], "data/test", ["data/test-0.parquet"]),
     (["en/train/0000.parquet", "en/train/0001.parquet", "en/test/0.parquet"], "en/train",
      ["en/train/0000.parquet", "en/train/0001.parquet"]),
     (["en/train.csv", "fr/train.csv", "fr/README.md"], "fr", ["fr/train.csv"]),
     (["a.csv", "b.csv"], "b.csv", ["b.csv"]),
     (["a.csv", "dataset_infos.json"], "", ["a.csv"]),
     (["part1.csv", "part2.csv.gz"], "", ["part1.csv", "part2.csv.gz"])],
)  # fmt: skip
def test_files_are_gathered_to_a_data_set(names: list[str], part: str, taken: list[str]) -> None:
    assert one_data_set(names, "here", part) == taken


@pytest.mark.parametrize(
    ("names", "part", "says"),
    [(["README.md"], "", "here: holds no file of rows; expected .jsonl, .ndjson, .json"),
     ([], "", "here: holds no file of rows"),
     (["data/test-0.parquet", "data/train-0.parquet"], "",
      "here: holds several data sets; name one of them: data/test, data/train"),
     (["en/test.csv", "en/train.csv", "fr/test.csv"], "en",
      "here: holds several data sets; name one of them: en/test, en/train"),
     (["a.csv", "b.jsonl"], "", "here: holds files of several formats (a.csv and b.jsonl)"),
     (["a.csv", "a.parquet"], "", "several formats (a.csv and a.parquet); name one file"),
     (["test.csv"], "train", "here: has no 'train'; it holds test"),
     ([f"{name}.csv" for name in "abcdefghijk"], "", "a, b, c, d, e, f, g, h and 3 more")],
)  # fmt: skip
def test_several_data_sets_are_listed(names: list[str], part: str, says: str) -> None:
    with pytest.raises(DataError) as caught:
        one_data_set(names, "here", part)
    assert says in str(caught.value)


def test_folders_that_are_no_data_set_are_refused(tmp_path: Path) -> None:
    assert "holds no file of rows" in problem(tmp_path)
    for name in ("a.csv", "b.jsonl"):
        (tmp_path / name).write_bytes(b"")
    assert f"{tmp_path}: holds files of several formats (a.csv and b.jsonl)" in problem(tmp_path)


# Parquet

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
    lines.write_bytes(json_lines(ROWS))
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
    assert len(load_rows(path, LoadOptions(skip_bad_rows=True)).rows) == n - 1


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
    assert [pair.id for pair in load_rows(path, LoadOptions(skip_bad_rows=True)).rows] == ["1", "3"]


def test_timestamps_order_posts(tmp_path: Path) -> None:
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
        load_rows(path, LoadOptions(skip_bad_rows=True))
    assert str(caught.value).startswith(f"{path}: not a readable Parquet file")
    assert "\n" not in str(caught.value)


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    table = pa.Table.from_arrays([pa.array(["1"]), pa.array(["2"])], names=["id", "id"])
    with pytest.raises(DataError, match=r"a\.parquet: two columns are named 'id'"):
        load_rows(parquet(tmp_path / "a.parquet", table))
