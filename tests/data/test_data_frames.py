from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from palate import Dataset
from palate.errors import DataError, UsageError

ROWS: list[dict[str, Any]] = [
    {"id": k, "user_id": f"u{k}", "question": f"Tea {k}?", "chosen": f"Yes {k}.",
     "rejected": "No.", "profile": [{"id": "p", "text": f"So {k}."}],
     "reference": None if k else "Green.", "chosen_rating": None if k else 4.5}
    for k in range(3)
]  # fmt: skip
EXPECTED = Dataset.from_rows("frame", ROWS)


def pandas_frame() -> Any:
    return pytest.importorskip("pandas").DataFrame(ROWS)


def pandas_of_parquet() -> Any:
    # Lists of a Parquet file come into pandas as arrays.
    pandas, numpy = pytest.importorskip("pandas"), pytest.importorskip("numpy")
    frame = pandas.DataFrame(ROWS)
    frame["profile"] = [numpy.array(posts, dtype=object) for posts in frame["profile"]]
    return frame.convert_dtypes()  # missing is NA


def pandas_of_csv() -> Any:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(ROWS)
    frame["profile"] = frame["profile"].map(json.dumps)
    return frame


def arrow_table() -> Any:
    return pytest.importorskip("pyarrow").Table.from_pylist(ROWS)


def data_set() -> Any:
    return pytest.importorskip("datasets").Dataset.from_list(ROWS)


class PolarsLike:
    columns = list(ROWS[0])

    def iter_rows(self, *, named: bool) -> Iterator[dict[str, Any]]:
        assert named
        return iter(ROWS)


@pytest.mark.parametrize(
    "make", [pandas_frame, pandas_of_parquet, pandas_of_csv, arrow_table, data_set, PolarsLike,
             lambda: ROWS, lambda: iter(ROWS)],
)  # fmt: skip
def test_frames_are_read_as_their_rows(make: Any) -> None:
    made = Dataset.of(make())
    assert made.rows == EXPECTED.rows
    assert made.content_hash == EXPECTED.content_hash


def test_what_is_missing_is_missing() -> None:
    pandas = pytest.importorskip("pandas")
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
    class TwoNames(PolarsLike):
        columns = ["id", "id"]

    for frame, says in (
        ({"train": ROWS}, "a mapping of train: give one of its values"),
        ("votes.csv", "a str holds no rows"),
        (7, "a int holds no rows"),
        (TwoNames(), "two columns of the frame are named 'id'"),
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
