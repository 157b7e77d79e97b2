"""A profile counts what computes, and its shares are of one whole."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from bench_profile import bench_profile, kind_of
from bench_work import BenchCase

from palate.records import Settings

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
