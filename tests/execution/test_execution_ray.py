"""The same run on a real local Ray cluster: the same bytes, whatever happens to a worker."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from palate import models
from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import evaluate
from palate.engines import local_loading as loading
from palate.engines import reader
from palate.errors import EndpointError, EngineError, LoadError, ModelError, UsageError
from palate.evaluation import evaluate as evaluating
from palate.execution import build_runner, ray_runner
from palate.execution.ray_runner import STARTING
from palate.records import Message, Prepared, Settings, Slate
from palate.runs import located_lines, read_manifest
from palate.scorers import build_scorer
from palate.session import Session
from scripted import (
    Exact,
    Flaky,
    Locked,
    Mortal,
    Neighbourly,
    Raising,
    Sleeper,
    Threads,
    Twofold,
    Unloadable,
)

ray = pytest.importorskip("ray")
TASTING = load_benchmark("tasting")
TWO = "ray?workers=2&wait=300"
ONE = "ray?workers=1&wait=300"


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    os.environ |= STARTING
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
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
    session = Session(engine=engine)
    name = None if isinstance(scorer, str) else "mine"
    made = evaluate(
        pairs, scorer, context, root=root, name=name, session=session, settings=settings
    )  # type: ignore[arg-type]
    assert made.folder is not None
    return files(made.folder)


def files(folder: Path) -> bytes:
    return b"".join((folder / name).read_bytes() for name in ("summary.json", "rows.jsonl"))


def lines(root: Path) -> list[str]:
    found = located_lines(next(root.rglob("journal.jsonl")))
    return sorted(line.model_copy(update={"last": False}).model_dump_json() for _, line in found)


def all_are_free() -> bool:
    """Say whether no worker is left after at most a minute."""
    deadline = time.monotonic() + 60
    while ray.available_resources().get("CPU") != 2 and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(ray.available_resources().get("CPU") == 2)


@pytest.mark.parametrize(("scorer", "workers"), [(Twofold(), TWO), (Flaky(False), ONE)])
def test_workers_give_the_bytes_of_one_process(scorer, workers, tmp_path):
    assert run(tmp_path / "here", scorer) == run(tmp_path / "ray", scorer, workers)
    assert lines(tmp_path / "here") == lines(tmp_path / "ray")
    here, there = (
        read_manifest(next((tmp_path / where).rglob("manifest.json")).parent)
        for where in ("here", "ray")
    )
    assert here == there, "where it ran is no part of what it is"


def test_a_model_gives_the_same_bytes_in_float32(tiny, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    spec = f"likelihood:{tiny.model()}"
    exact = Settings(dtype="float32")
    pairs = TASTING.limit(24)
    here = run(tmp_path / "here", spec, pairs=pairs, settings=exact)
    assert run(tmp_path / "ray", spec, ONE, pairs=pairs, settings=exact) == here


def test_a_worker_with_another_default_ends_the_run_before_a_number(tiny, tmp_path, monkeypatch):
    # This process stands for a machine with an accelerator, whose default is bfloat16.
    by_default = models.choose_dtype
    monkeypatch.setattr(
        reader, "choose_dtype", lambda dtype, device: by_default(dtype or "bfloat16", device)
    )
    spec = f"likelihood:{tiny.model()}"
    with pytest.raises(
        EngineError, match=r"than what is planned here \(dtype float32 for bfl"
    ) as e:
        run(tmp_path, spec, ONE, pairs=TASTING.limit(8))
    assert e.value.exit_code == 3
    assert "\n" not in str(e.value)
    assert [path.read_bytes() for path in tmp_path.rglob("journal.jsonl")] in ([], [b""])


def test_a_scorer_that_travels_computes_there_as_it_does_here(tiny, tmp_path, monkeypatch):
    spec, pairs = f"likelihood:{tiny.model()}", TASTING.limit(8)
    # Workers build these from their spec; one thread and the same units give the same sums.
    half, full = (
        run(tmp_path / dtype, spec, ONE, pairs=pairs, settings=Settings(dtype=dtype))
        for dtype in ("bfloat16", "float32")
    )
    by_default = models.choose_dtype
    for module in (reader, loading, evaluating, ray_runner):
        monkeypatch.setattr(
            module, "choose_dtype", lambda dtype, device: by_default(dtype or "bfloat16", device)
        )
    scorer = build_scorer(spec, Session(), Settings())
    found = margins(run(tmp_path / "travels", scorer, ONE, pairs=pairs))
    assert found == margins(half)
    assert found != margins(full)


def margins(result: bytes) -> list[float]:
    numbers = [float(number) for number in re.findall(rb'"margin":([-0-9.e]+)', result)]
    assert len(numbers) == 16
    return numbers


def test_each_of_two_workers_is_built_once_with_one_thread(tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    run(tmp_path / "runs", Threads(notes), TWO)
    built, units = zip(*(path.read_text().split("\n", 1) for path in notes.iterdir()), strict=True)
    assert built == ("1", "1")
    assert sum(text.count("unit") for text in units) > 2, "else building anew would not show"
    assert not {"1", "None"} & {line for text in units for line in text.splitlines()}


def test_a_killed_worker_loses_nothing_and_doubles_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "killed"
    found = run(tmp_path / "ray", Mortal(marker), TWO)
    assert marker.exists()
    assert found == run(tmp_path / "here", Mortal(marker))
    assert lines(tmp_path / "ray") == lines(tmp_path / "here")
    assert len(lines(tmp_path / "ray")) == 96


def test_a_worker_that_always_dies_ends_the_run_and_keeps_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_runner, "DEATHS_AT_MOST", 1)
    with pytest.raises(EngineError, match=r"2 workers died at the same work .*memory") as told:
        run(tmp_path, Exact(tmp_path / "killed"), ONE)
    assert "\n" not in str(told.value)
    assert len(lines(tmp_path)) == 3, "what came before the first death"


def test_a_worker_that_dies_of_its_model_ends_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(ray_runner, "DEATHS_AT_MOST", 1)
    with pytest.raises(EngineError, match="2 workers died at the same work"):
        run(tmp_path, Unloadable(SystemExit()), ONE)


def test_what_was_left_is_taken_up_by_either_engine(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", Neighbourly())
    for turn, (first, second) in enumerate(((None, ONE), (ONE, None))):
        root = tmp_path / f"{turn}"
        run(root, Neighbourly(), first)
        journal = next(root.rglob("journal.jsonl"))
        journal.write_bytes(journal.read_bytes()[:9_000])
        assert run(root, Neighbourly(), second) == whole


@pytest.mark.parametrize(
    ("scorer", "expected", "code", "words"),
    [
        (Raising(ZeroDivisionError("by\nnought")), EngineError, 3,
         "mine: ZeroDivisionError: by nought"),
        (Raising(EndpointError("http://x: HTTP 401")), EndpointError, 3, "http://x: HTTP 401"),
        (Unloadable(UsageError("no such head")), UsageError, 2, "no such head"),
        (Unloadable(ModelError("model ./m: no such folder")), EngineError, 3,
         "mine: a worker cannot load its model (model ./m: no such folder)"),
        (Raising(LoadError("./m: cannot be loaded (cut short)")), EngineError, 3,
         "mine: a worker cannot load its model (./m: cannot be loaded (cut short))"),
    ],
)  # fmt: skip
def test_what_goes_wrong_in_a_worker_is_one_line(scorer, expected, code, words, tmp_path):
    with pytest.raises(expected) as told:
        run(tmp_path, scorer, ONE)
    assert str(told.value) == words
    assert told.value.exit_code == code


def test_results_go_out_while_a_unit_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_runner, "REPLY_EVERY_S", 0.0)
    text = Message(role="user", content="Which?")
    slates = (Slate(question=(text,), candidates=(f"{k}", "b")) for k in range(3))
    unit = tuple(map(Prepared, slates))
    planned = ray_runner.ScorerIdentity.of(build_scorer("longest", Session()), "longest")
    worker = ray_runner.Worker("longest", {}, Settings(), 0, [], planned, "longest")
    assert list(worker.work(())) == 2 * [("results", [])], "it lives, it is built"
    assert [len(content) for _, content in worker.work(unit)] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("ray?workers=3", r"3 workers of 1 threads need 3 CPUs and the cluster has 2"),
        ("ray?workers=2&threads=2", "need 4 CPUs"),
        ("ray?workers=1&gpus=1", "1 GPUs need 1 GPUs and the cluster has 0"),
    ],
)
def test_more_than_the_cluster_has_is_refused(engine: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=words):
        run(tmp_path, Neighbourly(), engine)


@contextmanager
def held(cpus: int) -> Iterator[None]:
    """Hold so many of the cluster's CPUs, from when all are free."""

    @ray.remote(num_cpus=cpus)
    class Holder:
        def there(self) -> None: ...

    assert all_are_free()
    holder = Holder.remote()
    ray.get(holder.there.remote())
    try:
        yield
    finally:
        ray.kill(holder)


@pytest.mark.parametrize("cpus", [0, 2])
def test_a_wait_without_progress_ends_in_an_error(cpus: int, tmp_path: Path) -> None:
    scorer = Neighbourly() if cpus else Sleeper(tmp_path / "asleep")
    said = pytest.raises(EngineError, match=r"nothing came for 4 s.* of 2 CPUs are free")
    with held(cpus) if cpus else nullcontext(), said:
        run(tmp_path, scorer, "ray?workers=1&wait=4")
    assert all_are_free()


def test_a_worker_that_cannot_start_keeps_no_unit(tmp_path: Path) -> None:
    with held(1):
        found = run(tmp_path / "ray", Neighbourly(), TWO)
    assert found == run(tmp_path / "here", Neighbourly())


def test_an_interrupt_leaves_no_worker(tmp_path: Path) -> None:
    # A job in a shell's background begins with interrupts ignored.
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    marker, ended = tmp_path / "asleep", threading.Event()

    def interrupt() -> None:
        while not marker.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)
        # Ray was seen to swallow one, now and then; who waits presses again.
        while not ended.wait(5):
            os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        try:
            run(tmp_path, Sleeper(marker), ONE)
        finally:
            ended.set()
            signal.signal(signal.SIGINT, ignored)
    assert all_are_free()


def test_an_object_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"mine: cannot be sent to workers.*lock"):
        run(tmp_path, Locked(), TWO)


@pytest.mark.parametrize("where", ["local", "here"])
def test_the_command_line_prints_results_alone(where: str, tmp_path: Path) -> None:
    address = where if where == "local" else ray.get_runtime_context().gcs_address
    words = ["evaluate", "-b", "tasting", "-s", "longest", "-c", "none", "--format", "json"]
    engine = f"ray?workers=1&wait=300&address={address}"
    command = [sys.executable, "-m", "palate", *words, "--engine", engine]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["runs"][0]["accuracy"]["value"] == 0.5
    assert "Traceback" not in done.stderr
    folder = next(tmp_path.rglob("summary.json")).parent
    assert files(folder) == run(tmp_path / "again", "longest", context="none")


def test_a_finished_run_needs_no_workers(tmp_path: Path) -> None:
    run(tmp_path, Neighbourly())
    run(tmp_path, Neighbourly(), "ray?workers=99")


@pytest.mark.parametrize(
    "engine", ["ray?workers=0", "ray?wrokers=2", "rya", "ray:x", "ray?address=ray://HOST:10001"]
)
def test_a_bad_engine_spec_is_refused_at_once(engine: str) -> None:
    with pytest.raises(UsageError):
        build_runner(engine)
