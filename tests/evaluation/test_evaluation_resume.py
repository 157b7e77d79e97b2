"""A run killed anywhere and called again ends with the same bytes."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from endpoints import Loopback
from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import evaluate
from palate.errors import RunError, UsageError
from palate.evaluation import RecomputeOptions, Work, run_or_shard
from palate.execution import SHARDS, Shard, build_runner
from palate.execution import plan as planning
from palate.records import Component
from palate.runs import Journal, load_all, located_lines, locked
from palate.scorers.likelihood import Lift
from palate.session import Session
from scripted import Flaky, Neighbourly

TASTING = load_benchmark("tasting")


def run(root: Path, scorer: object, pairs: Dataset = TASTING, **options: object) -> bytes:
    made = evaluate(pairs, scorer, "profile:2", root=root, name="mine", **options)
    return (made.folder / "summary.json").read_bytes() + (made.folder / "rows.jsonl").read_bytes()


class Lifted(Lift):
    """`lift` over a scripted likelihood: two passes, the second without context."""

    def __init__(self) -> None:
        self.likelihood = base = Neighbourly()
        self.info = base.info.model_copy(update={"needs_shown": True})
        self.components = (Component(base), Component(base, without_context=True))

    def notes(self) -> tuple[str, ...]:
        return ()


def calls(scorer: object) -> int:
    if isinstance(scorer, Flaky):
        return scorer.asked
    return scorer.likelihood.calls if isinstance(scorer, Lifted) else scorer.calls


SCORERS = {"one pass": Neighbourly, "lift": Lifted, "exact judge": lambda: Flaky(failing=False)}


def test_the_same_run_in_two_places_gives_the_same_bytes(tmp_path: Path) -> None:
    assert run(tmp_path / "a", Neighbourly()) == run(tmp_path / "b", Neighbourly())


def test_a_finished_run_costs_no_call(tmp_path: Path) -> None:
    run(tmp_path, Neighbourly())
    again = Neighbourly()
    run(tmp_path, again)
    assert again.calls == 0


def test_garbage_after_the_last_whole_batch_is_cut(tmp_path: Path) -> None:
    expected = run(tmp_path, Neighbourly())
    journal = next(tmp_path.rglob("journal.jsonl"))
    content = journal.read_bytes()
    journal.write_bytes(content + b'{"id": "half a li')
    assert run(tmp_path, Neighbourly()) == expected
    assert journal.read_bytes() == content


def test_an_outage_is_asked_again_and_nothing_else_is(tmp_path: Path) -> None:
    first, second = Flaky(failing=True), Flaky(failing=False)
    run(tmp_path, first)
    run(tmp_path, second)
    assert 0 < second.asked < first.asked
    fresh = tmp_path / "fresh"
    assert run(tmp_path, Flaky(failing=False)) == run(fresh, Flaky(failing=False))
    lines = [line for _, line in located_lines(next(tmp_path.glob("tasting/**/journal.jsonl")))]
    assert len({line.id for line in lines}) == 96
    assert any(line.outage for line in lines), "what failed stays in the journal"


def test_unreadable_replies_are_asked_again_only_when_told(tmp_path: Path) -> None:
    run(tmp_path, Flaky(failing=False))
    plain, told = Flaky(failing=False), Flaky(failing=False)
    run(tmp_path, plain)
    run(tmp_path, told, retry_unscored=True)
    assert plain.asked == 0
    assert told.asked > 0


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    run(tmp_path, Neighbourly())
    journal = next(tmp_path.rglob("journal.jsonl"))
    with Journal(journal), pytest.raises(RunError, match="another process"):
        run(tmp_path, Neighbourly())


def test_another_runs_folder_is_refused(tmp_path: Path) -> None:
    run(tmp_path, Neighbourly())
    manifest = next(tmp_path.rglob("manifest.json"))
    changed = json.loads(manifest.read_text())
    changed["identity"]["seed"] = 7
    manifest.write_text(json.dumps(changed))
    with pytest.raises(RunError, match="another result"):
        run(tmp_path, Neighbourly())


def test_a_file_where_the_folder_should_be_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("in the way")
    with pytest.raises(RunError, match="cannot be written"):
        run(tmp_path / "runs", Neighbourly())


EIGHT = load_benchmark("tasting", limit=8)
"""Couples: 16 rows."""


def shard(root: Path, scorer: object, k: int, of: int, **how: Any) -> Work:
    """Compute one shard, as a process of its own would."""
    session, given_settings = how.pop("session", Session()), how.pop("settings", None)
    work = Work.of(session, given_settings, root, shard=Shard(k, of))
    pairs, context = how.pop("pairs", TASTING), how.pop("context", "profile:2")
    (named,) = work.scorers(scorer, None if isinstance(scorer, str) else "mine")  # type: ignore[arg-type]
    assert run_or_shard(named, pairs, context, work, **how) is None
    return work


def keys_in(root: Path) -> list[str]:
    journals = sorted(root.rglob("*journal.jsonl"))
    return [key for path in journals for _, line in located_lines(path) for key in line.keys]


@pytest.mark.parametrize(("kind", "of"), [*((kind, 3) for kind in SCORERS), ("exact judge", 7)])
def test_the_last_command_recalls_all_and_gives_the_bytes_of_one_process(kind, of, tmp_path):
    expected = run(tmp_path / "whole", SCORERS[kind]())
    root = tmp_path / "parts"
    for k in range(of, 0, -1):
        shard(root, SCORERS[kind](), k, of)
        assert not list(root.rglob("summary.json")), "a shard writes no run"
    parts = [keys_in(Shard(k, of).folder(root)) for k in range(1, of + 1)]
    every = [key for part in parts for key in part]
    assert sorted(every) == sorted(keys_in(tmp_path / "whole")), "each number is computed once"
    if of == 3:
        assert all(parts)
    last = SCORERS[kind]()
    assert run(root, last) == expected
    assert calls(last) == 0


@settings(
    max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(kind=st.sampled_from(sorted(SCORERS)), where=st.floats(0, 1))
def test_a_shard_killed_at_any_byte_and_begun_again_is_whole(kind, where, tmp_path_factory):
    root = tmp_path_factory.mktemp("killed")
    shard(root, SCORERS[kind](), 1, 2)
    journal = next(root.rglob("journal.jsonl"))
    content = journal.read_bytes()
    journal.write_bytes(content[: int(where * len(content))])
    shard(root, SCORERS[kind](), 2, 2)
    shard(root, SCORERS[kind](), 1, 2)
    assert journal.read_bytes() == content
    last = SCORERS[kind]()
    run(root, last)
    assert calls(last) == 0


@given(st.integers(0, 150), st.integers(1, 9), st.booleans())
def test_shards_are_every_nth_batch_and_together_all(n: int, of: int, exact: bool) -> None:
    class Cut:
        n_groups = n
        cuts = planning._cut(planning.np.arange(n) * 3000) if not exact else None

    if exact:
        Cut.cuts = planning.np.array([*range(0, n, 32), n] if n else [0])
    batches = [set(range(a, b)) for a, b in zip(Cut.cuts[:-1], Cut.cuts[1:], strict=True)]
    for k in range(1, of + 1):
        mine = set(Shard(k, of).groups(Cut).nonzero()[0].tolist())  # type: ignore[arg-type]
        assert mine == set().union(*batches[k - 1 :: of])


def test_a_shard_of_an_exact_scorer_does_not_depend_on_how_its_runner_cuts(tmp_path, monkeypatch):
    shard(tmp_path / "a", Flaky(failing=False), 2, 3)
    monkeypatch.setattr(type(build_runner(None)), "groups_per_batch", lambda self, groups: 7)
    shard(tmp_path / "b", Flaky(failing=False), 2, 3)
    assert sorted(keys_in(tmp_path / "a")) == sorted(keys_in(tmp_path / "b"))


def test_what_others_know_is_recalled_whatever_their_shards_were(tmp_path: Path) -> None:
    shard(tmp_path, Flaky(failing=False), 1, 3)
    for k in (1, 2):
        shard(tmp_path, Flaky(failing=False), k, 2)
    last = Flaky(failing=False)
    run(tmp_path, last)
    assert last.asked == 0
    again = Flaky(failing=False)
    shard(tmp_path, again, 4, 5)
    assert again.asked == 0


def test_rows_are_asked_again_by_shards_and_first_replies_do_not_stand_for_second(tmp_path):
    asked: list[object] = []

    def answer(path: str, body: object) -> tuple[int, dict[str, object]]:
        asked.append(body)
        choice = {"message": {"content": f"Rating: {1 + len(asked) % 9}"}, "finish_reason": "stop"}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 150, "completion_tokens": 2}}

    with Loopback(answer) as server:
        spec = f"rating:api:m?base_url={server.url}/v1&concurrency=1"
        for k in (1, 2):
            again = RecomputeOptions(None, 0.5)
            shard(tmp_path, spec, k, 2, pairs=EIGHT, context="none", options=again)
        before = len(asked)
        last = evaluate(EIGHT, spec, "none", root=tmp_path, ask_again=0.5)
    # Each of 8 couples has one prompt with two responses, which both of its rows ask of.
    assert (before, len(asked)) == (16 + 8, before)
    noise = last.summary.noise
    assert noise is not None and (noise.kind, noise.rows) == ("asking again", 8)
    first = {row.id: row.margin for row in last.verdicts.rows}
    assert any(first[row.id] != row.margin for row in last.again.rows)


def test_undecided_rows_are_shared_out_too(tmp_path: Path) -> None:
    rows = [
        {"id": str(k), "user_id": f"u{k % 5}", "question": f"{k}?", "chosen": "a" * (k + 1),
         "rejected": "b", "chosen_rating": 3, "rejected_rating": 2 if k % 2 else 3,
         "tie": k % 2 == 0}
        for k in range(90)
    ]  # fmt: skip
    file = tmp_path / "rated.jsonl"
    file.write_text("".join(f"{planning.canonical_json(row)}\n" for row in rows))
    pairs = load_benchmark(str(file))
    assert len(pairs.undecided_to_rate) == 45
    counts = []
    for k in (1, 2):
        scorer = Neighbourly()
        shard(tmp_path, scorer, k, 2, pairs=pairs, context="none", rate_undecided=True)
        counts.append(scorer.calls)
    assert sum(counts) == 4, "two batches of 45 prompts, twice"
    last = Neighbourly()
    made = evaluate(pairs, last, "none", root=tmp_path, name="mine", rate_undecided=True)
    assert last.calls == 0
    assert made.undecided is not None and len(made.undecided) == 45


def test_a_shard_is_no_run_and_one_process_writes_it(tmp_path: Path) -> None:
    shard(tmp_path, Neighbourly(), 1, 2)
    with pytest.raises(RunError, match="no finished result"):
        load_all(tmp_path)
    run(tmp_path, Neighbourly())
    (only,) = load_all(tmp_path)
    assert only.folder is not None and SHARDS not in only.folder.parts
    folder = next((tmp_path / SHARDS).rglob("journal.jsonl")).parent
    with (
        Journal(folder / "journal.jsonl"),
        pytest.raises(RunError, match="another process is writing"),
    ):
        shard(tmp_path, Neighbourly(), 1, 2)
    shard(tmp_path, Neighbourly(), 2, 2)


def test_shards_take_turns_where_contexts_are_written(tmp_path: Path) -> None:
    waiting = threading.Thread(target=shard, args=(tmp_path, Neighbourly(), 1, 2))
    with locked(tmp_path / SHARDS):
        waiting.start()
        waiting.join(0.4)
        assert waiting.is_alive()
    waiting.join()
    assert keys_in(tmp_path)


@pytest.mark.parametrize(
    "text", ["0/4", "9/8", "1/0", "x", "", "1", "1/2/3", "-1/2", "1.5/2", "²/3"]
)
def test_what_is_no_shard_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UsageError, match="expected I/N with I from 1 to N, such as 1/8") as error:
        Shard.parse(text)
    assert f"--shard {text}: " in str(error.value)
    assert "\n" not in str(error.value)
