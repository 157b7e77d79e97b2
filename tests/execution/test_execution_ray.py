"""The same run on a real local Ray cluster: the same bytes, whatever happens to a worker."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted import Flaky, Locked, Mortal, Neighbourly, Raising, Sleeper, Threads

from palate.benchmarks import Dataset, load_benchmark
from palate.errors import EndpointError, EngineError, PalateError, UsageError
from palate.evaluation import Options, evaluate
from palate.execution import build_runner
from palate.execution.over_ray import engine as over_ray
from palate.records import Settings
from palate.runs import located_lines, read_manifest

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow
TASTING = load_benchmark("tasting")
TWO = "ray?workers=2&wait=300"


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield
    ray.shutdown()


def run(
    root: Path,
    scorer: object,
    engine: str | None = None,
    context: str = "profile:2",
    pairs: Dataset = TASTING,
    settings: Settings | None = None,
) -> bytes:
    options = Options(settings or Settings(), engine=engine)
    name = None if isinstance(scorer, str) else "mine"
    made = evaluate(scorer, pairs, context, root=root, name=name, options=options)  # type: ignore[arg-type]
    assert made.folder is not None
    files = ("summary.json", "rows.jsonl")
    return b"".join((made.folder / name).read_bytes() for name in files)


def lines(root: Path) -> list[str]:
    found = located_lines(next(root.rglob("journal.jsonl")))
    return sorted(line.model_copy(update={"last": False}).model_dump_json() for _, line in found)


@pytest.mark.parametrize("scorer", [Neighbourly(), Flaky(failing=False), "longest"])
def test_two_workers_give_the_bytes_of_one_process(scorer: object, tmp_path: Path) -> None:
    assert run(tmp_path / "here", scorer) == run(tmp_path / "ray", scorer, TWO)
    assert lines(tmp_path / "here") == lines(tmp_path / "ray")
    here, there = (
        read_manifest(next((tmp_path / where).rglob("manifest.json")).parent)
        for where in ("here", "ray")
    )
    assert here == there, "where it ran is no part of what it is"


@pytest.mark.parametrize("kind", ["likelihood", "lift"])
def test_a_model_gives_the_same_bytes_in_float32(kind: str, tiny, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    spec = f"{kind}:{tiny.model()}"
    exact = Settings(dtype="float32")
    pairs = TASTING.limit(24)
    here = run(tmp_path / "here", spec, pairs=pairs, settings=exact)
    assert run(tmp_path / "ray", spec, TWO, pairs=pairs, settings=exact) == here


def test_work_is_spread_over_processes_of_one_thread_each(tmp_path: Path) -> None:
    run(tmp_path / "runs", Threads(tmp_path), TWO)
    told = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    assert len(told) == 2
    assert set(told.values()) == {"1"}


def test_a_killed_worker_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    found = run(tmp_path / "ray", Mortal(marker), TWO)
    assert marker.exists()
    assert found == run(tmp_path / "here", Mortal(marker))
    assert lines(tmp_path / "ray") == lines(tmp_path / "here")
    assert len(lines(tmp_path / "ray")) == 96


def test_a_worker_that_always_dies_ends_the_run_and_keeps_what_is_done(tmp_path: Path) -> None:
    with pytest.raises(EngineError) as told:
        run(tmp_path, Mortal(tmp_path / "killed", always=True), TWO)
    assert "\n" not in str(told.value)


def test_what_was_left_is_taken_up_by_either_engine(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", Neighbourly())
    for turn, (first, second) in enumerate(((None, TWO), (TWO, None))):
        root = tmp_path / f"{turn}"
        run(root, Neighbourly(), first)
        journal = next(root.rglob("journal.jsonl"))
        journal.write_bytes(journal.read_bytes()[:9_000])
        assert run(root, Neighbourly(), second) == whole


@pytest.mark.parametrize(
    ("error", "expected", "code", "words"),
    [
        (ZeroDivisionError("by\nnought"), EngineError, 3, "mine: ZeroDivisionError: by nought"),
        (EndpointError("http://x: HTTP 401"), EndpointError, 3, "http://x: HTTP 401"),
        (UsageError("no such head"), UsageError, 2, "no such head"),
    ],
)
def test_what_goes_wrong_in_a_worker_is_one_line(
    error: Exception, expected: type[PalateError], code: int, words: str, tmp_path: Path
) -> None:
    with pytest.raises(expected) as told:
        run(tmp_path, Raising(error), TWO)
    assert str(told.value) == words
    assert told.value.exit_code == code


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("ray?workers=4", r"4 workers of 1 threads need 4 CPUs and the cluster has 3"),
        ("ray?workers=2&threads=2", "need 4 CPUs"),
        ("ray?workers=1&gpus=1", "1 GPUs need 1 and the cluster has 0"),
    ],
)
def test_more_than_the_cluster_has_is_refused(engine: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        run(tmp_path, Neighbourly(), engine)


def test_as_many_workers_as_cpus_do_not_wait_for_ever(tmp_path: Path) -> None:
    found = run(tmp_path / "ray", Neighbourly(), "ray?workers=3&wait=60")
    assert found == run(tmp_path / "here", Neighbourly())


@pytest.mark.parametrize("held", [False, True])
def test_a_wait_without_progress_ends_in_an_error(held: bool, tmp_path: Path) -> None:
    @ray.remote(num_cpus=3)
    class Holder:
        def there(self) -> None: ...

    holder = Holder.remote() if held else None
    if holder is not None:
        ray.get(holder.there.remote())
    try:
        with pytest.raises(EngineError, match=r"nothing came for 4 s.* of 3 CPUs are free"):
            run(tmp_path, Neighbourly() if held else Sleeper(), "ray?workers=1&wait=4")
    finally:
        if holder is not None:
            ray.kill(holder)


def test_an_object_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mine: cannot be sent to workers.*lock"):
        run(tmp_path, Locked(), TWO)


def test_texts_go_out_in_portions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(over_ray, "AHEAD_BYTES", 40_000)
    found = run(tmp_path / "ray", Neighbourly(), TWO)
    assert found == run(tmp_path / "here", Neighbourly())


def test_the_command_line_prints_results_alone(tmp_path: Path) -> None:
    def palate(engine: str) -> subprocess.CompletedProcess[str]:
        words = ["evaluate", "-b", "tasting", "-s", "longest", "-c", "none", "--format", "json"]
        command = [sys.executable, "-m", "palate", *words, "--engine", engine]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    done = palate("ray?workers=1&wait=300")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"][0]["accuracy"]["value"] == 0.5
    assert "Traceback" not in done.stderr
    refused = palate("ray?workers=0")
    assert refused.returncode == 2
    assert (len(refused.stderr.splitlines()), refused.stdout) == (1, "")


def test_a_finished_run_needs_no_workers(tmp_path: Path) -> None:
    run(tmp_path, Neighbourly())
    run(tmp_path, Neighbourly(), "ray?workers=99")


@pytest.mark.parametrize("engine", ["ray?workers=0", "ray?wrokers=2", "rya", "ray:x"])
def test_a_bad_engine_spec_is_refused_at_once(engine: str) -> None:
    with pytest.raises(UsageError):
        build_runner(engine)
