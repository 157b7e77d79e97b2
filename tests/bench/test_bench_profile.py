"""A profile counts what computes, and its shares are of one whole."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import bench_profile as profiles
from bench_profile import bench_profile, kind_of
from bench_work import BenchCase

from emulated_kernel import emulated
from palate.engines import LocalModel, Reader, local_kernels, local_model
from palate.records import Settings
from palate.specs import Reference

CASE = BenchCase("pairs", 60, 2, 3, response=20)


def test_a_pass_is_counted_by_operations_bytes_and_shares(tiny):
    shared, bare = bench_profile(
        tiny.model(), settings=Settings(dtype="float32"), cases=[CASE], progress=lambda *_: None
    )
    assert (shared.way, bare.way, shared.dtype) == ("shared", "bare", "float32")
    for profile in (shared, bare):
        assert profile.products + profile.attention + profile.rest == pytest.approx(1)
        assert min(profile.products, profile.attention, profile.rest, profile.seconds) > 0
    # A layer has seven products, and one attention or more; the tree's is parted and merged.
    assert shared.launches > bare.launches > 8
    assert shared.gigabytes > 0


def test_products_within_attention_count_as_attention(tiny, monkeypatch):
    def products(query, key, value, is_causal, scale):
        for _ in range(50):
            query @ query.transpose(-1, -2)
        return (local_kernels.causal if is_causal else local_kernels.dense)(
            query, key, value, scale, products=False
        )

    def shares():
        settings = Settings(dtype="float32")
        profiles = bench_profile(
            tiny.model(), settings=settings, cases=[CASE], progress=lambda *_: None
        )
        return profiles[0].attention

    before = shares()
    monkeypatch.setattr(local_kernels, "_products_pay", lambda *_: True)
    monkeypatch.setattr(local_kernels, "by_products", products)
    assert shares() > max(0.5, before)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("aten::mm", "products"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::mul", "rest"),
        ("aten::mean", "rest"),
        ("nvjet_tst_128x256_64x4", "products"),
    ],
)
def test_kernels_are_told_by_name(name, kind):
    assert kind_of(name) == kind


@torch.library.custom_op("tests::many_runs_attention", mutates_args=())
def as_one_launch(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    run_ends: torch.Tensor,
    key_ends: torch.Tensor,
    scale: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    gather = SimpleNamespace(run_ends=run_ends, key_ends=key_ends)
    out, weight = emulated(query, key, value, gather, scale)
    return out.clone(), weight.clone()


def test_a_kernel_for_many_runs_is_one_launch_a_layer(tiny, monkeypatch):
    def kernel(query, key, value, gather, scale):
        return as_one_launch(query, key, value, gather.run_ends, gather.key_ends, scale)

    folder = Reference.parse(tiny.model())
    monkeypatch.setattr(
        profiles, "load_model", lambda _, told: LocalModel(Reader(folder, told), "causal")
    )
    best = BenchCase("best of 8", 60, 8, 1, response=20)

    def launches():
        told = Settings(dtype="float32", device="cpu")
        found = bench_profile("", settings=told, cases=[best], progress=lambda *_: None)
        return [profile.launches for profile in found]

    by_run, _ = launches()
    monkeypatch.setattr(local_model, "many_runs_of", lambda device, dtype: kernel)
    at_once, bare = launches()
    # Nine runs are a kernel and two copies each, and a merge; now it is two copies and a kernel.
    assert at_once < by_run - 9 * 3
    assert at_once < bare + 12
