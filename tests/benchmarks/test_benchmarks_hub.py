from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hubs import COMMIT, OLDER, Hub, read_by, serving
from palate.benchmarks import LoadOptions, load_benchmark
from palate.errors import BenchmarkError, DataError

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


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    for n, subset in enumerate(SUBSETS):
        (folder / subset).mkdir()
        # The ids begin anew in each subset, as numbers in a data set's files may.
        rows = [row(k) for k in range(2 + n)]
        if n == 2:
            rows.append(row(9, chosen=""))
        pq.write_table(pa.Table.from_pylist(rows), folder / subset / "test-00000-of-00001.parquet")
    return folder


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
    for subset in SUBSETS:
        (tmp_path / subset).mkdir()
        table = pa.Table.from_pylist([{"id": "1", "prompt": "What?", "chosen": "a"}])
        pq.write_table(table, tmp_path / subset / "test-00000-of-00001.parquet")
    with pytest.raises(DataError, match="the row has chosen, id, prompt") as caught:
        load_benchmark(NAME, options=LoadOptions(source=tmp_path))
    assert caught.value.field == "question"


def test_users_and_mirrors_are_named_within_their_subset(tmp_path: Path) -> None:
    for subset in SUBSETS:
        (tmp_path / subset).mkdir()
        one = row(1, user_id="ann", mirror_of="2")
        other = row(1, id="2", user_id="bob", mirror_of="1", chosen="No 1.", rejected="Yes 1.")
        table = pa.Table.from_pylist([one, other])
        pq.write_table(table, tmp_path / subset / "test-00000-of-00001.parquet")
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

for revision in json.loads(sys.argv[1]):
    try:
        pairs = load_benchmark("personalized-rewardbench", options=LoadOptions(revision=revision))
    except PalateError as error:
        print(json.dumps({"error": type(error).__name__, "code": error.exit_code,
                          "message": str(error)}))
    else:
        print(json.dumps({"revision": pairs.revision, "ids": [p.id for p in pairs.pairs],
                          "hash": pairs.content_hash, "bad": len(pairs.bad_rows)}))
"""


def load(url: str, home: Path, *revisions: str | None) -> list[dict[str, Any]]:
    return read_by(SCRIPT, url, home, *revisions)


def test_the_hub_is_read_at_the_commit_it_names(hub: Hub, copy: Path, tmp_path: Path) -> None:
    latest, pinned, unknown = load(hub.url, tmp_path, None, "v1", "v9")
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
    (failed,) = load(hub.url, tmp_path / "home", None)
    assert (failed["error"], failed["code"]) == ("HubError", 3)
    assert "--source DIR" in failed["message"]


def test_a_hub_that_is_not_there_is_a_hub_error_that_names_the_way_out(tmp_path: Path) -> None:
    server = Hub(tmp_path, REPOSITORY)
    url = server.url
    server.server_close()  # nobody listens here now
    (failed,) = load(url, tmp_path, None)
    assert (failed["error"], failed["code"]) == ("HubError", 3)
    assert "without a network use --source DIR" in failed["message"]
    assert f"{REPOSITORY}@main" in failed["message"]
    assert "\n" not in failed["message"]


def test_a_hub_that_fails_is_a_hub_error(hub: Hub, tmp_path: Path) -> None:
    hub.down = True
    (failed,) = load(hub.url, tmp_path, None)
    assert (failed["error"], failed["code"]) == ("HubError", 3)
    assert "--source DIR" in failed["message"]
    assert "503" in failed["message"]
