"""The bench measures what it says, on a tiny model."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

import pytest
import torch
from typer import Typer
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from bench_prefix import (
    MATMUL,
    Costs,
    _Measurement,
    bench_prefix,
    dense_operations,
    load_model,
    tree_operations,
    tree_tokens,
)
from bench_work import FULL, SPREAD, BenchCase, BenchWork, draw_work

import bench as tool
from bench import plot_bench
from palate.cli.declare import flattened
from palate.engines import LocalModel, Reader, local_kernels, local_model
from palate.errors import PalateError, SpecError, UsageError
from palate.records import Settings
from palate.specs import Reference

CASES = (
    BenchCase("pairs", 60, 2, 3, 2, response=20),
    BenchCase("best of 4", 40, 4, 2, response=20),
)
COSTS = Costs(token=10.0, logits=100.0, attention=1.0)


@pytest.fixture(autouse=True)
def product_of_small_matrices(monkeypatch):
    """The roof of the shipped size takes minutes where half precision is emulated."""
    monkeypatch.setitem(MATMUL, "cpu", 128)


def test_every_column_is_measured_and_the_ways_agree(tiny):
    found = bench_prefix(tiny.model(), cases=CASES, settings=Settings(dtype="float32"))
    assert [one.case for one in found] == ["pairs", "best of 4", "pairs"]
    for one in found:
        assert min(one.usual_s, one.sorted_s, one.shared_s, one.roof_share, one.token_share) > 0
        assert one.matmul_share > 0
        assert one.speedup == pytest.approx(one.usual_s / one.shared_s)
        assert 1 < one.token_ideal < one.candidates
        assert one.max_abs_difference <= 1e-4
        assert one.rank_flips == 0
    assert list(asdict(found[0])) == [
        "case", "dtype", "prefix_tokens", "response_tokens", "candidates", "usual_s", "sorted_s",
        "shared_s", "speedup", "token_ideal", "roof_share", "token_share", "matmul_share",
        "max_abs_difference", "rank_flips",
    ]  # fmt: skip


def test_float32_is_measured_beside_another_dtype(tiny):
    found = bench_prefix(tiny.model(), cases=CASES[:1], settings=Settings(dtype="bfloat16"))
    assert [one.dtype for one in found] == ["bfloat16", "float32"]
    assert found[1].max_abs_difference <= 1e-4 < found[0].max_abs_difference


def test_work_is_drawn_anew_the_same_with_the_lengths_it_says(tiny):
    local = LocalModel(Reader(Reference.parse(tiny.model()), Settings()), "causal")
    case = BenchCase("many", 100, 3, 60, response=50)
    work = draw_work(local, case)
    assert work == draw_work(local, case)
    assert all(SPREAD[0] * 100 - 1 <= n <= SPREAD[1] * 100 + 1 for n in work.starts)
    assert sum(work.starts) / 60 == pytest.approx(100, rel=0.1)
    own = [len(ids) - start for ids, start in work.rows]
    assert len(own) == 180
    assert sum(own) / 180 == pytest.approx(50, rel=0.1)
    for slate, start in zip(work.slates, work.starts, strict=True):
        assert len({ids[:start] for ids in slate}) == 1
        assert len(set(slate)) == 3


def test_operations_are_counted_by_hand():
    shared = tuple(range(20))
    work = BenchWork((((*shared, 50, 51), (*shared, 60)),), (20,))
    assert tree_tokens(work) == 23
    keys = 20 * 21 / 2 + (21 + 22) + 21
    assert tree_operations(COSTS, work) == 23 * 10 + 3 * 100 + keys
    assert dense_operations(COSTS, 4) == 4 * 10 + 10
    assert dense_operations(COSTS, 4, logits=2) == 4 * 10 + 10 + 200


def test_operations_equal_what_torch_counts(tiny):
    from bench_prefix import costs_of
    from torch.utils.flop_counter import FlopCounterMode

    local = LocalModel(Reader(Reference.parse(tiny.model()), Settings(attention="eager")), "causal")
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        local.model(input_ids=torch.arange(64)[None])
    costs = costs_of(local)
    square = 64 * 64 * costs.attention  # eager attention computes the masked half too
    assert counter.get_total_flops() == 64 * costs.token + 64 * costs.logits + square


def test_random_weights_need_no_tokenizer_and_no_folder():
    how = Settings(dtype="float32", device="cpu")
    (found, _) = bench_prefix("random:0.1b", cases=CASES[1:], settings=how)
    assert (found.case, found.dtype) == ("best of 4", "float32")
    assert found.max_abs_difference <= 1e-4
    with pytest.raises(SpecError, match=r"one of 0\.1b, 1b, 3b, 8b"):
        bench_prefix("random:2b", cases=CASES)


def test_random_weights_multiply_as_palate_does_and_the_usual_loop_does_not(monkeypatch):
    made = []

    class LinearByOneDnn(torch.nn.Linear):
        def forward(self, rows):
            made.append(len(rows))
            return super().forward(rows)

    monkeypatch.setattr(local_model, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(local_kernels, "_linear_by_onednn", lambda: LinearByOneDnn)
    local = load_model("random:0.1b", Settings(dtype="float32", device="cpu", attention="tree"))
    measured = _Measurement(local, CASES[1])
    made.clear()
    usual = measured._in_batches(range(len(measured.work.rows)))
    assert not made
    assert usual == pytest.approx(measured._shared(), abs=1e-4)
    assert len(made) >= local.layers * 7


def test_a_model_that_shares_nothing_is_refused(tiny):
    with pytest.raises(UsageError, match="nothing to measure"):
        bench_prefix(tiny.model("MambaForCausalLM", state_size=4), cases=CASES)


def test_the_full_bench_is_what_the_documentation_says():
    assert [(case.prefix, case.candidates) for case in FULL] == [
        (256, 2), (512, 2), (1024, 2), (1500, 2), (2048, 2), (1024, 16),
    ]  # fmt: skip
    assert [case.repeats for case in FULL] == [1, 1, 1, 5, 1, 5]


def test_the_picture_is_written_or_refused_in_one_line(tiny, tmp_path):
    found = bench_prefix(tiny.model(), cases=CASES[:1], settings=Settings(dtype="float32"))
    for name in ("bench.svg", "bench.png"):
        plot_bench(found, tmp_path / name)
        assert (tmp_path / name).stat().st_size > 5000
    for wrong in (tmp_path / "bench.svg" / "bench.svg", tmp_path / "bench.doc"):
        with pytest.raises(UsageError, match="cannot be written"):
            plot_bench(found, wrong)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--decoding", "--plot", "x.png"), "leave out --decoding"),
        (("--only", "no such"), "--only no such: no case is named so"),
    ],
)
def test_what_cannot_be_measured_is_refused(words, says):
    app = Typer()
    app.command()(flattened(tool.bench))
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, PalateError)
    assert says in str(done.exception)
