from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from palate.benchmarks import LoadOptions, load_benchmark
from palate.errors import BenchmarkError, DataError

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pytest.importorskip("huggingface_hub")

NAME = "personalized-rewardbench"
REPOSITORY = "QiyaoMa/Personalized-RewardBench"
SUBSETS = ("Art_and_Entertainment", "Lifestyle_and_Personal_Development", "Society_and_Culture")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
OLDER = "fedcba9876543210fedcba9876543210fedcba98"


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


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, folder: Path, down: bool = False) -> None:
        self.folder, self.down = folder, down
        self.asked: list[str] = []
        super().__init__(("127.0.0.1", 0), Routes)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Routes(BaseHTTPRequestHandler):
    server: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: object) -> None:
        pass

    def answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        revisions = {"main": COMMIT, "v1": OLDER, COMMIT: COMMIT, OLDER: OLDER}
        info, files = f"/api/datasets/{REPOSITORY}/revision/", f"/datasets/{REPOSITORY}/resolve/"
        path = self.path.split("?")[0]
        if self.server.down:
            self.answer(503, b"out to lunch")
        elif path.startswith(info) and path.removeprefix(info) in revisions:
            commit = revisions[path.removeprefix(info)]
            body = json.dumps({"id": REPOSITORY, "sha": commit, "siblings": []}).encode()
            self.answer(200, body, Content_Type="application/json")
        elif path.startswith(files):
            commit, _, name = path.removeprefix(files).partition("/")
            file = self.server.folder / name
            if commit in (COMMIT, OLDER) and file.is_file():
                body = file.read_bytes()
                etag = f'"{hashlib.sha256(body).hexdigest()}"'
                self.answer(200, body, ETag=etag, X_Repo_Commit=commit)
            else:
                self.answer(404, b"", X_Error_Code="EntryNotFound", X_Repo_Commit=commit)
        else:
            self.answer(404, b"", X_Error_Code="RevisionNotFound")

    do_HEAD = do_GET  # noqa: N815


@pytest.fixture
def hub(copy: Path) -> Iterator[Hub]:
    server = Hub(copy)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


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
    # huggingface_hub reads HF_ENDPOINT when it is imported, so each look is a process of its own.
    environment = {
        name: value for name, value in os.environ.items()
        if not name.startswith(("HF_", "HUGGING")) and "proxy" not in name.lower()
    }  # fmt: skip
    environment |= {
        "HF_ENDPOINT": url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_PROXY": "127.0.0.1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps(revisions)],
        env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


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
    server = Hub(tmp_path)
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
