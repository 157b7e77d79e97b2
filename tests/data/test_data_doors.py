"""One row is one row, whatever file or frame it comes through and in whatever order."""

from __future__ import annotations

import csv
import gzip
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import palate
from palate.benchmarks import Dataset, LoadOptions, couple_votes, find_benchmark
from palate.cli import app
from palate.data import LayoutOptions
from palate.errors import BenchmarkError, DataError, UsageError
from palate.seeding import unit

pandas, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

Rows = Sequence[dict[str, Any]]


class PolarsLike:
    """A frame of polars, as far as palate uses one."""

    def __init__(self, rows: Rows) -> None:
        self.rows, self.columns = rows, list(rows[0])

    def iter_rows(self, *, named: bool) -> Iterator[dict[str, Any]]:
        assert named
        return iter(self.rows)


def as_csv(rows: Rows, separator: str = ",") -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), delimiter=separator)
    writer.writeheader()
    for row in rows:
        writer.writerow({name: json.dumps(cell) if isinstance(cell, list) else cell
                         for name, cell in row.items()})  # fmt: skip
    return out.getvalue()


def as_lines(rows: Rows) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def write(path: Path, rows: Rows) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(list(rows)), path)
        return path
    kind = path.name.removesuffix(".gz").rpartition(".")[2]
    text = {"csv": as_csv, "tsv": lambda made: as_csv(made, "\t"), "jsonl": as_lines,
            "json": lambda made: json.dumps(list(made))}[kind](rows)  # fmt: skip
    data = text.encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def of_file(ending: str) -> Callable[[Rows, Path, LayoutOptions], Dataset]:
    def read(rows: Rows, folder: Path, layout: LayoutOptions) -> Dataset:
        file = write(folder / f"votes.{ending}", rows)
        return find_benchmark(str(file)).load(LoadOptions(layout=layout))

    return read


def of_frame(make: Callable[[Rows], Any]) -> Callable[[Rows, Path, LayoutOptions], Dataset]:
    return lambda rows, folder, layout: Dataset.of(make(rows), "votes", layout=layout)


def hub_set(rows: Rows) -> Any:
    return pytest.importorskip("datasets").Dataset.from_list(list(rows))


FRAMES: dict[str, Callable[[Rows], Any]] = {
    "list": list,
    "iterator": iter,
    "pandas": pandas.DataFrame,
    "polars": PolarsLike,
    "table": lambda rows: pa.Table.from_pylist(list(rows)),
    "Dataset": hub_set,
}
DOORS = {
    **{ending: of_file(ending) for ending in ("csv", "tsv", "csv.gz", "jsonl", "json", "parquet")},
    **{name: of_frame(make) for name, make in FRAMES.items() if name != "iterator"},
}

word = st.sampled_from(["Green tea.", 'Black: strong, "hot"', "No\ntea.", "5.0", "7", "茶", "A, b"])
people = st.sampled_from(["ann", "bob", "7", "cy"])
vote = st.fixed_dictionaries({
    "prompt": st.sampled_from(["Tea?", "Why tea, \"friend\"?", "1.50", "Was ist\n das?"]),
    "response_a": word, "response_b": word, "winner": st.sampled_from(["a", "b", "tie"]),
    "user": people, "n": st.one_of(st.integers(0, 9), st.none()), "flag": st.booleans(),
    "share": st.floats(0, 9, allow_nan=False, width=16), "code": st.sampled_from(["007", "x", ""]),
}).filter(lambda row: row["response_a"] != row["response_b"])  # fmt: skip
contract = st.fixed_dictionaries({
    "user_id": st.one_of(st.none(), st.integers(1, 4)), "question": word,
    "chosen": st.just("Yes."), "rejected": word, "tie": st.booleans(),
    "chosen_rating": st.one_of(st.none(), st.integers(1, 5)), "date": st.sampled_from(["2024", ""]),
    "profile": st.lists(st.sampled_from(["I like it.", "[x]", "So, \"no\"."]), max_size=2,
                        unique=True).map(lambda texts: [{"text": text} for text in texts]),
})  # fmt: skip
rated = st.fixed_dictionaries({
    "prompt": st.sampled_from(["Tea?", "Why?"]), "user": people,
    "answers": st.just(["A.", "B.", "C."]), "scores": st.lists(st.integers(1, 5), min_size=3,
                                                               max_size=3),
})  # fmt: skip
tables = st.one_of(*(st.lists(row, min_size=1, max_size=6) for row in (vote, contract, rated)))


def rows_and_couples(dataset: Dataset) -> Any:
    rows = [row.to_row() for row in dataset.rows]
    pools = {name: pool.users for name, pool in dataset.user_pools().items()}
    decided = [row for row in dataset.rows if not getattr(row, "tie", False)]
    couples = couple_votes(replace(dataset, rows=tuple(decided)))
    return rows, dataset.content_hash, str(pools), couples


@given(tables)
@settings(max_examples=25, deadline=None)
def test_the_door_changes_no_id_no_hash_and_no_couple(tmp_path_factory, made):
    folder = tmp_path_factory.mktemp("doors")
    read = {}
    for name, door in DOORS.items():
        try:
            read[name] = rows_and_couples(door(made, folder, LayoutOptions()))
        except DataError as error:
            read[name] = error.problem
    for name, found in read.items():
        assert found == read["csv"], name


class Echo:
    """A number of all that is shown and of the response."""

    info = palate.ScorerInfo(fingerprint="echo", exact=True)

    def score(self, slates: Sequence[palate.Slate]) -> Iterator[tuple[int, palate.Scores]]:
        for position, slate in enumerate(slates):
            shown = [part.text for part in slate.shown]
            values = tuple(unit("echo", *shown, text) for text in slate.candidates)
            yield position, palate.Scores(values=values)


def many(users: Sequence[str] = ("ann", "bob", "cy", "dan"), n: int = 6) -> list[dict[str, Any]]:
    draw = random.Random(5)
    return [
        {"user": user, "prompt": f"Tea {k}?", "response_a": f"Green {k}, \"mild\".",
         "response_b": f"Black {k}\nand longer.", "winner": draw.choice("ab"), "n": k}
        for k in range(n) for user in users
    ]  # fmt: skip


def posts(folder: Path, users: Sequence[str] = ("ann", "bob", "cy", "dan")) -> Path:
    rows = [{"user_id": user, "text": f"I am {user} and wrote number {k}."}
            for user in users for k in range(4)]  # fmt: skip
    return write(folder / "posts.csv", rows)


def figures(dataset: Dataset) -> Any:
    found = {}
    for context in ("profile:2", "stranger:2"):
        run = palate.evaluate(dataset.select(), Echo(), context, root=None, name="echo")
        columns = ["id", "outcome", "margin", "mirror_of"]
        rows = sorted(zip(*(run.to_arrow()[name].to_pylist() for name in columns), strict=True))
        found[context] = run.accuracy, rows
    found["couples"] = len(couple_votes(dataset.select()))
    return found


CHANGES = {
    **{name: DOORS[name] for name in DOORS if name != "jsonl"},
    "permuted": lambda rows, folder, layout: DOORS["jsonl"](
        rows[::2] + rows[1::2][::-1], folder, layout),
    "shuffled csv": lambda rows, folder, layout: DOORS["csv"](
        random.Random(1).sample(rows, len(rows)), folder, layout),
    "columns in another order": lambda rows, folder, layout: DOORS["csv"](
        [dict(reversed(row.items())) for row in rows], folder, layout),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_no_door_and_no_order_changes_a_figure(tmp_path, change):
    layout = LayoutOptions(posts=posts(tmp_path))
    expected = figures(DOORS["jsonl"](many(), tmp_path, layout))
    assert figures(CHANGES[change](many(), tmp_path, layout)) == expected


def test_shards_and_concatenation_change_no_figure(tmp_path):
    rows, layout = many(), LayoutOptions(posts=posts(tmp_path))
    expected = figures(DOORS["jsonl"](rows, tmp_path, layout))
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        write(folder / f"votes-{k}.csv", rows[k::3])
    loaded = find_benchmark(str(folder)).load(LoadOptions(layout=layout))
    assert figures(loaded) == expected
    joined = tmp_path / "joined" / "votes.csv"
    joined.parent.mkdir()
    parts = [file.read_text() for file in sorted(folder.iterdir())]
    joined.write_text("\ufeff" + "\ufeff".join(parts))
    loaded = find_benchmark(str(joined)).load(LoadOptions(layout=layout))
    assert figures(loaded) == expected and loaded.account.left_out


def test_renamed_columns_that_are_mapped_back_change_no_figure(tmp_path):
    layout = LayoutOptions(posts=posts(tmp_path))
    expected = figures(DOORS["jsonl"](many(), tmp_path, layout))
    theirs = {"user": "who", "prompt": "asked", "winner": "w", "response_a": "left one"}
    rows = [{theirs.get(name, name): cell for name, cell in row.items()} for row in many()]
    columns = {"user_id": "who", "question": "asked", "winner": "w", "response_a": "left one"}
    file = write(tmp_path / "votes.csv", rows)
    loaded = find_benchmark(str(file)).load(LoadOptions(layout=layout, columns=columns))
    assert figures(loaded) == expected


def test_choices_and_rows_that_palate_numbered_do_not_collide(tmp_path):
    rows = many()
    data = DOORS["csv"](rows[:12], tmp_path, LayoutOptions())
    past = DOORS["csv"](rows[12:], tmp_path, LayoutOptions())
    assert len(data.with_history(past.rows).history) == 12
    # The very rows are no past choices of their own: left out, and counted.
    both = data.with_history(DOORS["jsonl"](rows[6:], tmp_path, LayoutOptions()).rows)
    assert (len(both.history), both.history_left_out) == (12, 6)


def test_choices_whose_users_have_lost_zeros_are_refused(tmp_path):
    rows = many(["007", "ann"], 2)
    data = DOORS["csv"](rows[:2], tmp_path, LayoutOptions())
    past = DOORS["csv"]([{**rows[2], "user": "7"}, rows[3]], tmp_path, LayoutOptions())
    with pytest.raises(BenchmarkError, match=r"of '7' and rows of '007': zeros are lost"):
        data.with_history(past.rows)


def test_ids_of_a_file_are_as_they_are_and_rows_without_one_have_theirs_by_content(tmp_path):
    rows = many(n=2)
    named = [{**row, "id": k if k % 2 else None} for k, row in enumerate(rows)]
    ids = [row.id for row in DOORS["csv"](named, tmp_path, LayoutOptions()).rows]
    assert ids[1::2] == ["1", "3", "5", "7"] and len(set(ids)) == 8
    assert ids[::2] == [row.id for row in DOORS["list"](rows, tmp_path, LayoutOptions()).rows][::2]
    lists = [{"prompt": f"{k}?", "answers": ["A.", "B.", "C."], "scores": [1, 2, 3], "id": given}
             for k, given in enumerate((None, "x", None))]  # fmt: skip
    ids = [row.id for row in DOORS["jsonl"](lists, tmp_path, LayoutOptions()).rows]
    assert ids[3:6] == ["x-3-2", "x-3-1", "x-2-1"] and len(set(ids)) == 9
    twice = DOORS["csv"]([rows[0], rows[0]], tmp_path, LayoutOptions()).rows
    assert twice[1].id == f"{twice[0].id}-2"


def test_a_refusal_names_no_id_that_the_file_lacks(tmp_path):
    file = write(tmp_path / "p.csv", [{"annotator": "ann", "text": "Mild."}])
    with pytest.raises(UsageError, match=r"the first rows have annotator, text$"):
        find_benchmark(str(file)).load()


def test_posts_are_counted_once_each(tmp_path):
    votes = write(tmp_path / "votes.csv", many())
    found = CliRunner().invoke(app, ["data", str(votes), "--posts", str(posts(tmp_path))])
    assert "16 in 24 rows, 4 each" in found.output


# frames

ROWS: list[dict[str, Any]] = [
    {"id": k, "user_id": f"u{k}", "question": f"Tea {k}?", "chosen": f"Yes {k}.",
     "rejected": "No.", "profile": [{"id": "p", "text": f"So {k}."}],
     "reference": None if k else "Green.", "chosen_rating": None if k else 4.5}
    for k in range(3)
]  # fmt: skip
EXPECTED = Dataset.from_rows("frame", ROWS)


def pandas_of_parquet() -> Any:
    # Lists of a Parquet file come into pandas as arrays.
    frame = pandas.DataFrame(ROWS)
    frame["profile"] = [np.array(posts, dtype=object) for posts in frame["profile"]]
    return frame.convert_dtypes()  # missing is NA


def pandas_of_csv() -> Any:
    frame = pandas.DataFrame(ROWS)
    frame["profile"] = frame["profile"].map(json.dumps)
    return frame


@pytest.mark.parametrize(
    "make",
    [pandas_of_parquet, pandas_of_csv, *(lambda make=make: make(ROWS) for make in FRAMES.values())],
)
def test_frames_are_read_as_their_rows(make: Any) -> None:
    made = Dataset.of(make())
    assert made.rows == EXPECTED.rows
    assert made.content_hash == EXPECTED.content_hash


def test_what_is_missing_is_missing() -> None:
    nothing = [float("nan"), pandas.NaT, pandas.NA, None]
    rows = [
        row | {"reference": gap, "seen": gap} for row, gap in zip(ROWS * 2, nothing, strict=False)
    ]
    frame = pandas.DataFrame([row | {"id": k} for k, row in enumerate(rows)])
    for row in Dataset.of(frame).rows:
        assert (row.gold.reference, dict(row.extra)) == (None, {})


def test_columns_are_mapped_and_bad_rows_left_out() -> None:
    rows = [{"key": k, "question": "Tea?", "chosen": "Yes.", "rejected": "No." if k else "Yes.",
             "posts": '[{"id": "p", "text": "So."}]'} for k in range(2)]  # fmt: skip
    columns = {"id": "key", "profile": "posts"}
    with pytest.raises(DataError, match=r"mine:1: `chosen`: equals"):
        Dataset.of(rows, "mine", columns=columns)
    made = Dataset.of(rows, "mine", columns=columns, skip_bad_rows=True)
    assert [(row.id, row.subset, row.profile[0].text) for row in made.rows] == [
        ("1", "mine", "So.")
    ]
    assert (len(made.bad_rows), made.columns) == (1, columns)


def test_what_holds_no_rows_is_refused() -> None:
    twice = PolarsLike(ROWS)
    twice.columns = ["id", "id"]
    for frame, says in (
        ({"train": ROWS}, "a mapping of train: give one of its values"),
        ("votes.csv", "a str holds no rows"),
        (7, "a int holds no rows"),
        (twice, "two columns of the frame are named 'id'"),
    ):
        with pytest.raises(UsageError, match=says):
            Dataset.of(frame)
    with pytest.raises(DataError, match=r"frame:1: expected an object, got int"):
        Dataset.of([1])


def test_none_of_the_libraries_is_imported() -> None:
    script = (
        "import sys, palate; palate.Dataset.of([{'id': 1, 'question': 'Tea?'}]);"
        "names = 'pandas', 'polars', 'pyarrow', 'datasets';"
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
