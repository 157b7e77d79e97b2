from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubs import COMMIT, OLDER, Hub, read_by, serving
from palate.benchmarks import LoadOptions, find_benchmark, load_benchmark
from palate.benchmarks.registry import is_path
from palate.errors import BenchmarkError, UsageError
from row_files import write

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("huggingface_hub")

NAME = "personalized-rewardbench"
REPOSITORY = "QiyaoMa/Personalized-RewardBench"
SUBSETS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")


def row(k: int, **changes: Any) -> dict[str, Any]:
    made = {
        "id": str(k), "question": f"What of {k}?",
        "profile": [{"id": f"p{k}", "category": "tea", "text": f"I wrote {k} posts."}],
        "rubric_aspects": [{"aspect": "Brief", "evidence": f"{k}", "reason": "Short of time."}],
        "narrative": f"I am the {k}.", "category": "tea", "chosen": f"Yes {k}.",
        "rejected": f"No {k}.",
    }  # fmt: skip
    return made | changes


def copied(folder: Path, *rows: list[dict[str, Any]]) -> Path:
    """Write the rows of each subset in the hub's layout."""
    for subset, of_subset in zip(SUBSETS, rows, strict=True):
        (folder / subset).mkdir()
        table = pa.Table.from_pylist(of_subset)
        pq.write_table(table, folder / subset / "test-00000-of-00001.parquet")
    return folder


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    # The ids begin anew in each subset, as numbers in a data set's files may.
    rows = [[row(k) for k in range(2 + n)] for n in range(3)]
    rows[2].append(row(9, chosen=""))
    return copied(tmp_path_factory.mktemp("hub"), *rows)


def test_a_local_copy_in_the_hubs_layout_is_read(copy: Path) -> None:
    pairs = load_benchmark(NAME, options=LoadOptions(source=copy))
    assert [pair.id for pair in pairs.pairs] == [
        f"{subset}/{k}" for n, subset in enumerate(SUBSETS) for k in range(2 + n)
    ]
    assert all(pair.user_id == pair.id for pair in pairs.pairs)
    assert pairs.subsets == SUBSETS
    assert pairs.revision is None
    assert any(pair.profile for pair in pairs.pairs)
    assert pairs.pairs[0].gold.aspects[0].evidence == "0"
    (bad,) = pairs.bad_rows  # left out, counted and listed, without --skip-bad-rows
    assert (bad.line, bad.field) == (5, "chosen")
    assert f"{SUBSETS[2]}/test-00000-of-00001.parquet" in (bad.file or "")


def test_one_subset_of_the_copy(copy: Path) -> None:
    pairs = load_benchmark(f"{NAME}?subset={SUBSETS[1]}", options=LoadOptions(source=copy))
    assert len(pairs.pairs) == 3


def test_a_copy_that_lacks_a_file_names_it(copy: Path, tmp_path: Path) -> None:
    (tmp_path / SUBSETS[0]).symlink_to(copy / SUBSETS[0])
    with pytest.raises(BenchmarkError, match=f"no file .*{SUBSETS[1]}/test-00000-of-00001"):
        load_benchmark(NAME, options=LoadOptions(source=tmp_path))


def test_a_copy_in_another_schema_says_what_it_expected(copy: Path, tmp_path: Path) -> None:
    copied(tmp_path, *[[{"id": "1", "prompt": "What?", "chosen": "a"}]] * 3)
    with pytest.raises(UsageError, match="the first rows have id, prompt, chosen"):
        load_benchmark(NAME, options=LoadOptions(source=tmp_path))


def test_users_and_mirrors_are_named_within_their_subset(tmp_path: Path) -> None:
    one = row(1, user_id="ann", mirror_of="2")
    other = row(1, id="2", user_id="bob", mirror_of="1", chosen="No 1.", rejected="Yes 1.")
    copied(tmp_path, *[[one, other]] * 3)
    pairs = load_benchmark(NAME, options=LoadOptions(source=tmp_path))
    assert (pairs.mirrored, len(pairs.couples)) == (True, 3)
    assert {pair.user_id for pair in pairs.pairs} == {
        f"{subset}/{name}" for subset in SUBSETS for name in ("ann", "bob")
    }


@pytest.fixture
def hub(copy: Path) -> Iterator[Hub]:
    with serving(copy, REPOSITORY) as server:
        yield server


SCRIPT = """
import json, sys
from palate.benchmarks import LoadOptions, load_benchmark
from palate.errors import PalateError

for name, revision in json.loads(sys.argv[1]):
    try:
        pairs = load_benchmark(name, options=LoadOptions(revision=revision))
    except PalateError as error:
        print(json.dumps({"error": type(error).__name__, "code": error.exit_code,
                          "message": str(error)}))
    else:
        print(json.dumps({"revision": pairs.revision, "name": pairs.name,
                          "ids": [p.id for p in pairs.pairs], "subsets": pairs.subsets,
                          "hash": pairs.content_hash, "bad": len(pairs.bad_rows)}))
"""


def load(url: str, home: Path, *asked: tuple[str, str | None]) -> list[dict[str, Any]]:
    """Return what a program reads of these benchmarks, each at a revision."""
    return read_by(SCRIPT, url, home, *asked)  # type: ignore[arg-type]


def declared(url: str, home: Path, *revisions: str | None) -> list[dict[str, Any]]:
    return load(url, home, *((NAME, revision) for revision in revisions))


def test_the_hub_is_read_at_the_commit_it_names(hub: Hub, copy: Path, tmp_path: Path) -> None:
    latest, pinned, unknown = declared(hub.url, tmp_path, None, "v1", "v9")
    local = load_benchmark(NAME, options=LoadOptions(source=copy))
    assert (latest["revision"], pinned["revision"]) == (COMMIT, OLDER)
    for read in (latest, pinned):
        assert read["ids"] == [pair.id for pair in local.pairs]
        assert (read["hash"], read["bad"]) == (local.content_hash, 1)
    # Every file is asked for at the commit: never at a branch, which may move between two files.
    files = [path for path in hub.asked if "/resolve/" in path]
    assert files
    assert all(f"/resolve/{COMMIT}/" in path or f"/resolve/{OLDER}/" in path for path in files)
    assert (unknown["error"], unknown["code"]) == ("HubError", 3)
    assert f"{REPOSITORY}@v9" in unknown["message"]
    assert "\n" not in unknown["message"]


def test_a_file_the_hub_lacks_is_a_hub_error(hub: Hub, copy: Path, tmp_path: Path) -> None:
    part = tmp_path / "part"
    part.mkdir()
    (part / SUBSETS[0]).symlink_to(copy / SUBSETS[0])
    hub.folder = part
    (failed,) = declared(hub.url, tmp_path / "home", None)
    assert (failed["error"], failed["code"]) == ("HubError", 3)
    assert "--source DIR" in failed["message"]


def test_a_hub_that_is_not_there_is_a_hub_error_that_names_the_way_out(tmp_path: Path) -> None:
    server = Hub(tmp_path, REPOSITORY)
    url = server.url
    server.server_close()  # nobody listens here now
    (failed,) = declared(url, tmp_path, None)
    assert (failed["error"], failed["code"]) == ("HubError", 3)
    assert "without a network use --source DIR" in failed["message"]
    assert f"{REPOSITORY}@main" in failed["message"]
    assert "\n" not in failed["message"]


def test_a_hub_that_fails_is_a_hub_error(hub: Hub, tmp_path: Path) -> None:
    hub.down = True
    (failed,) = declared(hub.url, tmp_path, None)
    assert (failed["error"], failed["code"]) == ("HubError", 3)
    assert "--source DIR" in failed["message"]
    assert "503" in failed["message"]


# any data set by its address

URL = "hf://datasets/ORG/wine"


def wines(n: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"id": f"r{k}", "question": f"Tea {k}?", "chosen": "Yes.", "rejected": "No."}
            for k in range(first, first + n)]  # fmt: skip


def test_a_data_set_of_one_split_is_read_at_its_commit(tmp_path: Path) -> None:
    folder = tmp_path / "repository"
    (folder / "data").mkdir(parents=True)
    (folder / "README.md").write_text("# Wine")
    for k in range(2):
        name = f"train-{k:05d}-of-00002-ab{k}.parquet"
        pq.write_table(pa.Table.from_pylist(wines(2, 2 * k)), folder / "data" / name)
    with serving(folder, "ORG/wine") as server:
        main, pinned, given, unknown = load(
            server.url, tmp_path / "home", (URL, None), (f"{URL}@v1", None), (URL, "v1"),
            (f"{URL}@v9", None),
        )  # fmt: skip
    assert main == main | {"revision": COMMIT, "name": "wine", "ids": ["r0", "r1", "r2", "r3"],
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
    write(folder / "en/test.jsonl", wines(2))
    write(folder / "en/train.jsonl", wines(3))
    write(folder / "fr/test.jsonl", wines(1, 7))
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
    assert test == test | {"revision": COMMIT, "name": "wine-en-test", "ids": ["r0", "r1"],
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
