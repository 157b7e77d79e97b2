"""Rows that are computed twice: in float32 beside half precision, or asked of an endpoint again."""

import re
from pathlib import Path

import numpy as np
import pytest

import palate
from endpoints import Loopback
from palate.benchmarks import load_benchmark
from palate.comparison import evaluate
from palate.errors import UsageError
from palate.evaluation import sampled
from palate.models import choose_dtype
from palate.records import Settings
from palate.runs import Run
from palate.scorers import build_scorer
from palate.session import Session

HALF = Settings(dtype="bfloat16")
EIGHT = load_benchmark("tasting", limit=8)
"""Couples: 16 rows."""
FILES = ("summary.json", "rows.jsonl", "again.jsonl")


def texts(folder: Path) -> list[bytes]:
    return [(folder / name).read_bytes() for name in FILES]


@pytest.fixture(scope="module")
def spec(tiny):
    return f"lift:{tiny.model()}"


def test_the_sample_is_what_a_float32_run_gives(tmp_path, spec):
    half = evaluate(EIGHT, spec, "profile:1", root=tmp_path, settings=HALF, noise_rows=6)
    exact = evaluate(EIGHT, spec, "profile:1", root=None, settings=Settings(dtype="float32"))
    assert half.again is not None and len(half.again) == 6
    whole = {row.id: row for row in exact.verdicts.rows}
    for row in half.again.rows:
        assert row.margin == pytest.approx(whole[row.id].margin, abs=1e-4)
        assert row.outcome == whole[row.id].outcome
    noise = half.summary.noise
    first = {row.id: row.margin for row in half.verdicts.rows}
    errors = [first[row.id] - row.margin for row in half.again.rows]
    assert (noise.kind, noise.dtype, noise.rows) == ("rounding", "bfloat16", 6)
    assert 0 < noise.sd == pytest.approx(np.sqrt(np.pi / 2) * np.mean(np.abs(errors)), rel=1e-12)
    assert noise.flips_seen == sum(
        row.outcome != one.outcome
        for row in half.again.rows
        for one in half.verdicts.rows
        if one.id == row.id
    )
    mirror = {row.id: row.mirror_of for row in half.again.rows}
    assert all(mirror[other] == row for row, other in mirror.items()), "whole couples"


def test_rounding_of_compiled_layers_is_measured_against_plain_float32(tmp_path, spec, monkeypatch):
    compiled: list[str] = []
    name = "palate.engines.local_model.compile_model"
    monkeypatch.setattr(name, lambda local: compiled.append(str(local.dtype)))
    settings = HALF.model_copy(update={"compile": "on"})
    with Session() as session:
        work = {"root": tmp_path, "session": session}
        run = evaluate(EIGHT, spec, "profile:1", settings=settings, **work)
        plain = evaluate(EIGHT, spec, "profile:1", settings=HALF, **work)
        assert session.loaded == 2 + 1, "both have one float32"
    assert compiled == ["torch.bfloat16"]
    assert run.folder != plain.folder
    assert run.again is not None and plain.again is not None
    assert [*run.again.rows] == [*plain.again.rows]


def test_a_float32_run_is_the_bytes_that_it_was(tmp_path, spec):
    for settings in (Settings(dtype="float32"), Settings(device="cpu")):
        run = evaluate(EIGHT, spec, "profile:1", root=tmp_path, settings=settings)
        assert run.summary.noise is None and run.again is None
        assert b"noise" not in (run.folder / "summary.json").read_bytes()
        assert not list(run.folder.glob("*float32*")) and not (run.folder / "again.jsonl").exists()
    grid = palate.evaluate(EIGHT, "longest", root=None, settings=HALF)
    assert [run.summary.noise for run in grid.runs] == [None] * 3
    assert "survival" not in grid.to_json()


def test_killed_anywhere_it_gives_the_same_bytes_and_finished_it_loads_nothing(tmp_path, spec):
    run = evaluate(EIGHT, spec, "profile:1", root=tmp_path, settings=HALF, noise_rows=8)
    expected, folder = texts(run.folder), run.folder
    journal = folder / "float32.journal.jsonl"
    whole = journal.read_bytes()
    with Session() as session:
        again = evaluate(
            EIGHT, spec, "profile:1", root=tmp_path, settings=HALF, noise_rows=8, session=session
        )
        assert session.loaded == 0 and texts(folder) == expected
    assert Run.read(folder).again.rows[0] == again.again.rows[0]
    for cut in (0, len(whole) // 3, len(whole) - 1):
        for name in FILES:
            (folder / name).unlink()
        journal.write_bytes(whole[:cut])
        evaluate(EIGHT, spec, "profile:1", root=tmp_path, settings=HALF, noise_rows=8)
        assert texts(folder) == expected and journal.read_bytes() == whole


def test_fewer_rows_are_part_of_more_in_any_order():
    rows = load_benchmark("tasting")
    few, more = sampled(rows, 10, 0), sampled(rows, 40, 0)
    assert len(few) == 10 and set(few) < set(more) and few == sorted(few)
    assert sampled(rows, 10, 1) != few and len(sampled(rows, 96, 0)) == 96
    turned = palate.Dataset.from_rows("turned", [row.to_row() for row in rows.rows[::-1]])
    ids = {rows.rows[k].id for k in few}
    assert {turned.rows[k].id for k in sampled(turned, 10, 0)} == ids


def test_none_is_said_so_and_objects_too(tmp_path, spec):
    run = evaluate(EIGHT, spec, "profile:1", root=tmp_path, settings=HALF, noise_rows=0)
    assert run.summary.noise.rows == 0 and "--noise-rows 0" in run.summary.noise.note
    scorer = build_scorer(spec, Session(), HALF)
    given = evaluate(EIGHT, scorer, "profile:1", root=None, name="mine", settings=HALF)
    assert "object" in given.summary.noise.note and given.again is None
    # The sample comes with the next call, and nothing else is computed.
    few = load_benchmark("tasting", limit=12)
    for asked, rows in ((0, 0), (None, 16), (20, 20), (None, 20), (4, 4), (0, 0)):
        later = evaluate(few, spec, "profile:1", root=tmp_path, settings=HALF, noise_rows=asked)
        assert later.summary.noise.rows == rows, "a larger sample stays unless another is named"
        assert (later.folder / "again.jsonl").exists() == (rows > 0)


def test_without_room_in_memory_it_is_said_and_the_run_stands(monkeypatch, tmp_path, spec):
    monkeypatch.setattr(Session, "has_room", lambda self, settings: False)
    run = evaluate(EIGHT, spec, "profile:1", root=tmp_path, settings=HALF)
    assert run.summary.noise.note == "the model in float32 does not fit into memory"
    assert run.summary.unscored == 0
    with monkeypatch.context() as there:
        there.setattr(Session, "has_room", lambda self, settings: True)
        there.setattr("palate.evaluation.work.Computation.run", _out_of_memory_in_float32())
        run = evaluate(EIGHT, spec, "profile:1", root=tmp_path, settings=HALF)
        assert run.summary.noise.note == "the model in float32 does not fit into memory"


def _out_of_memory_in_float32():
    from palate.evaluation import Computation

    usual = Computation.run

    def run(self, *arguments, **options):
        if self.work.settings.dtype == "float32":
            raise RuntimeError("CUDA out of memory. Tried to allocate 20 GiB")
        return usual(self, *arguments, **options)

    return run


@pytest.mark.parametrize("kind", ["classifier", "likelihood", "judge", "implicit", "rating"])
def test_every_kind_of_number_has_its_rounding(tiny, kind):
    model = tiny.model()
    told = {
        "classifier": f"classifier:{tiny.model('LlamaForSequenceClassification', num_labels=1)}",
        "likelihood": f"likelihood:{model}",
        "judge": f"judge:{model}?verdict=logits",
        "implicit": f"implicit:{model}?reference={tiny.model(num_hidden_layers=1)}",
        "rating": f"rating:{model}?verdict=logits",
    }[kind]
    noise = evaluate(EIGHT, told, "none", root=None, settings=HALF).summary.noise
    assert noise.rows == 16 and 0 < noise.sd < 3 and noise.expected_flips >= 0
    if kind == "judge":
        run = evaluate(EIGHT, told, "none", root=None, settings=HALF)
        assert run.verdicts.votes.shape == (16, 2)


def test_a_personal_scorer_keeps_its_states_and_reads_vectors_in_float32(tiny, tmp_path):
    rows = [
        {"id": f"{n}-{k}", "user_id": f"u{k}", "question": f"{n}?",
         "chosen": ("Go! ", "calm ")[k % 2] * (n + 1), "split": "adapt" if n < 4 else "test",
         "rejected": ("calm ", "Go! ")[k % 2] * (n + 1)}
        for n in range(8) for k in range(5)
    ]  # fmt: skip
    votes = palate.Dataset.from_rows("votes", rows)
    made = palate.train("user-heads", votes, tmp_path / "m", embedders=tiny.model(), settings=HALF)
    grid = palate.evaluate(votes, f"personal:{made.folder}", root=tmp_path, settings=HALF)
    for run in grid.runs:
        noise = run.summary.noise
        assert (noise.kind, noise.rows) == ("rounding", 16), run.summary.scorer
    own, _, stranger = (run.summary.noise for run in grid.runs)
    assert own.sd > 0 and grid.runs[2].verdicts.shared and stranger.expected_flips >= 0
    style = palate.train("user-heads", votes, tmp_path / "s", embedders="style", settings=HALF)
    run = evaluate(votes, f"personal:{style.folder}", "none", root=None, settings=HALF)
    assert run.summary.noise is None, "nothing of it computes in half precision"


VOTES = palate.Dataset.from_rows("votes", [
    {"id": k, "user_id": f"u{k % 5}", "question": f"Which, {k}?",
     "chosen": "a" * (k + 1), "rejected": "b" * (17 - k)}
    for k in range(16)
])  # fmt: skip


class Drifting:
    """A chat server that rates by length, and some prompts otherwise when it is asked again."""

    def __init__(self) -> None:
        self.times: dict[str, int] = {}

    def __call__(self, path, body):
        text = body["messages"][-1]["content"]
        self.times[text] = self.times.get(text, 0) + 1
        rating = 1 + len(text) % 9
        if (self.times[text] > 1 and "7?" in text) or (self.times[text] > 1 and "3?" in text):
            rating = 10 - rating
        choice = {"message": {"content": f"Rating: {rating}"}, "finish_reason": "stop"}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 150, "completion_tokens": 1}}


def test_endpoints_are_asked_a_share_once_more_past_the_cache(tmp_path):
    with Loopback(Drifting()) as server:
        spec = f"rating:api:m?base_url={server.url}/v1&price_in=1&price_out=1"
        with Session(cache=tmp_path / "cache", max_cost=1.0) as session:
            run = evaluate(VOTES, spec, "none", root=tmp_path, session=session, ask_again=0.5)
            requests, spent = len(server.seen), session.ledger.spent
        noise = run.summary.noise
        assert requests == 16 * 2 + 8 * 2, "both responses of all rows, and of half of them again"
        assert spent == pytest.approx(requests * 151e-6), "all within one cap"
        assert (noise.kind, noise.rows, noise.dtype, noise.sd) == ("asking again", 8, None, None)
        first = {row.id: row.outcome for row in run.verdicts.rows}
        seen = sum(first[row.id] != row.outcome for row in run.again.rows)
        assert noise.flips_seen == seen > 0 and noise.expected_flips == 16 * seen / 8
        expected, folder = texts(run.folder), run.folder
        evaluate(VOTES, spec, "none", root=tmp_path, ask_again=0.5)
        assert len(server.seen) == requests and texts(folder) == expected, "kept with the run"
        for name in FILES:
            (folder / name).unlink()
        journal = folder / "again.journal.jsonl"
        journal.write_bytes(journal.read_bytes()[:-1])
        again = evaluate(VOTES, spec, "none", root=tmp_path, ask_again=0.5)
        assert len(server.seen) == requests + 2, "the row that the kill had cost"
        more = evaluate(VOTES, spec, "none", root=tmp_path, ask_again=0.75)
        assert more.summary.noise.rows == 12 and again.folder == folder
        assert len(server.seen) == requests + 2 + 4 * 2


def test_without_the_option_nothing_is_asked_twice_and_what_was_kept_stays(tmp_path):
    with Loopback(Drifting()) as server:
        spec = f"rating:api:m?base_url={server.url}/v1"
        run = evaluate(VOTES, spec, "none", root=tmp_path)
        assert run.summary.noise is None and len(server.seen) == 32
        again = evaluate(VOTES, spec, "none", root=tmp_path, ask_again=0.25)
        expected = texts(again.folder)
        later = evaluate(VOTES, spec, "none", root=tmp_path)
        assert later.summary == again.summary and texts(later.folder) == expected
        assert len(server.seen) == 32 + 4 * 2


def test_a_cap_that_is_reached_leaves_the_second_time_short(tmp_path):
    with Loopback(Drifting()) as server:
        spec = f"rating:api:m?base_url={server.url}/v1&price_in=0&price_out=1&max_tokens=2"
        with Session(max_cost=(32 + 8) * 1e-6) as session:
            run = evaluate(VOTES, spec, "none", root=tmp_path, session=session, ask_again=1.0)
        assert run.summary.unscored == 0 and 0 < run.summary.noise.rows <= 3
        assert session.ledger.spent <= 39e-6
        with Session(max_cost=1.0) as session:
            whole = evaluate(VOTES, spec, "none", root=tmp_path, session=session, ask_again=1.0)
        assert whole.summary.noise.rows == 16, "the rest is asked later"


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"noise_rows": -1}, "--noise-rows -1: expected a number of rows"),
        ({"ask_again": 1.5}, "--ask-again 1.5: expected a share"),
        ({"ask_again": float("nan")}, "--ask-again nan: expected a share"),
        ({"ask_again": 0.5}, "no scorer here asks an endpoint"),
    ],
)
def test_bad_options_are_one_line(wrong, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        palate.evaluate("tasting", "longest", root=None, **wrong)


def test_half_precision_by_default_is_told_by_the_device(monkeypatch, spec):
    # On an accelerator models compute in bfloat16 unless told.
    def by_default(dtype, device):
        return choose_dtype(dtype or "bfloat16", device)

    for module in ("evaluation.evaluate", "engines.reader", "engines.local_loading"):
        monkeypatch.setattr(f"palate.{module}.choose_dtype", by_default)
    told = {"session": Session(), "settings": Settings(device="cpu")}  # no reader of before
    run = evaluate(EIGHT, spec, "profile:1", root=None, **told)
    assert run.summary.noise.dtype == "bfloat16" and run.summary.noise.rows == 16
