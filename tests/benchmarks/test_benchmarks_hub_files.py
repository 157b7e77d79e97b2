from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hubs import COMMIT, OLDER, read_by, serving
from palate.benchmarks import LoadOptions, find_benchmark, load_benchmark
from palate.benchmarks.registry import is_path
from palate.errors import BenchmarkError

pytest.importorskip("huggingface_hub")
pq = pytest.importorskip("pyarrow.parquet")
pa = pytest.importorskip("pyarrow")

URL = "hf://datasets/ORG/wine"


def rows(n: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"id": f"r{k}", "question": f"Tea {k}?", "chosen": "Yes.", "rejected": "No."}
            for k in range(first, first + n)]  # fmt: skip


def lines(n: int, first: int = 0) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows(n, first))


SCRIPT = """
import json, sys
from palate.benchmarks import LoadOptions, load_benchmark
from palate.errors import PalateError

for url, revision in json.loads(sys.argv[1]):
    try:
        pairs = load_benchmark(url, options=LoadOptions(revision=revision))
    except PalateError as error:
        print(json.dumps({"error": type(error).__name__, "code": error.exit_code,
                          "message": str(error)}))
    else:
        print(json.dumps({"revision": pairs.revision, "name": pairs.name,
                          "ids": [p.id for p in pairs.pairs], "subsets": pairs.subsets}))
"""


def load(url: str, home: Path, *asked: tuple[str, str | None]) -> list[dict[str, Any]]:
    return read_by(SCRIPT, url, home, *asked)  # type: ignore[arg-type]


def test_a_data_set_of_one_split_is_read_at_its_commit(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text("# Wine")
    for k in range(2):
        name = f"train-{k:05d}-of-00002-ab{k}.parquet"
        pq.write_table(pa.Table.from_pylist(rows(2, 2 * k)), folder / "data" / name)
    with serving(folder, "ORG/wine") as server:
        main, pinned, given, unknown = load(
            server.url, tmp_path / "home", (URL, None), (f"{URL}@v1", None), (URL, "v1"),
            (f"{URL}@v9", None),
        )  # fmt: skip
    assert main == {"revision": COMMIT, "name": "wine", "ids": ["r0", "r1", "r2", "r3"],
                    "subsets": ["wine"]}  # fmt: skip
    assert pinned == given == main | {"revision": OLDER}
    files = [path for path in server.asked if "/resolve/" in path]
    assert files and all(f"/resolve/{COMMIT}/" in path or OLDER in path for path in files)
    assert (unknown["error"], unknown["code"]) == ("HubError", 3)
    assert "ORG/wine@v9" in unknown["message"] and "-b FOLDER" in unknown["message"]


def test_a_data_set_of_several_splits_needs_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    (folder / "en").mkdir(parents=True)
    (folder / "fr").mkdir()
    (folder / "en/test.jsonl").write_text(lines(2))
    (folder / "en/train.jsonl").write_text(lines(3))
    (folder / "fr/test.jsonl").write_text(lines(1, 7))
    with serving(folder, "ORG/wine") as server:
        whole, english, test, file, french, none = load(
            server.url, tmp_path / "home", (URL, None), (f"{URL}/en", None),
            (f"{URL}/en/test", None), (f"{URL}@v1/en/test.jsonl", None), (f"{URL}/fr/", None),
            (f"{URL}/de", None),
        )  # fmt: skip
    assert (whole["error"], whole["code"]) == ("DataError", 2)
    listed = "name one of them: en/test, en/train, fr/test"
    assert whole["message"] == f"{URL}: holds several data sets; {listed}"
    assert "name one of them: en/test, en/train" in english["message"]
    assert none["message"] == f"{URL}/de: has no 'de'; it holds en/test, en/train, fr/test"
    assert test == {"revision": COMMIT, "name": "wine-en-test", "ids": ["r0", "r1"],
                    "subsets": ["wine-en-test"]}  # fmt: skip
    assert file == test | {"revision": OLDER}
    assert (french["name"], french["ids"]) == ("wine-fr", ["r7"])
    # Nothing is fetched of what was not asked for.
    assert not [path for path in server.asked if "/resolve/" in path and "train" in path]


@pytest.mark.parametrize(
    ("url", "name"),
    [(URL, "wine"), (f"{URL}/", "wine"), (f"{URL}@main", "wine"), (f"{URL}/a/b", "wine-a-b"),
     (f"{URL}@refs/convert/parquet/default/train", "wine-default-train"),
     (f"{URL}@refs%2Fpr%2F1/x.csv.gz", "wine-x")],
)  # fmt: skip
def test_addresses_are_benchmarks(url: str, name: str) -> None:
    assert is_path(url)
    assert find_benchmark(url).name == name


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [("hf://datasets/wine", {}, "expected hf://datasets/ORG/NAME"),
     ("hf://ORG/wine", {}, "expected hf://datasets/ORG/NAME"),
     (f"{URL}@", {}, "expected hf://datasets/ORG/NAME"),
     (f"{URL}@v1", {"revision": "v2"}, "names a revision: it takes no --revision"),
     (URL, {"source": Path()}, "takes no --source; give the folder to -b")],
)  # fmt: skip
def test_addresses_that_are_none_are_refused(url: str, options: Any, says: str) -> None:
    with pytest.raises(BenchmarkError, match=says) as caught:
        load_benchmark(url, options=LoadOptions(**options))
    assert "\n" not in str(caught.value)
