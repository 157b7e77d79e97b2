"""Attention of a whole pack by one kernel, emulated here, against run after run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_forward import assert_close, encode, load, log_probabilities, plain_log_probabilities

from emulated_kernel import emulated
from palate.engines import local_attention, local_kernels, local_model
from palate.engines.local_attention import Layout, attend_tree
from palate.engines.local_kernels import MOST_COPIED, plan_gather
from palate.engines.local_tree import build_tree, packs

FEW = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=8)
HEADS, GROUPS, WIDTH = 4, 2, 8


def random_qkv(n, seed):
    made = torch.Generator().manual_seed(seed)
    heads = (HEADS, GROUPS, GROUPS)
    return [torch.randn(1, many, n, WIDTH, generator=made) for many in heads]


@settings(max_examples=40)
@given(FEW, st.integers(1, 3), st.integers(1, 30))
def test_one_kernel_for_a_pack_gives_what_run_after_run_gives(sequences, least, budget):
    calls, stack = [], []

    def kernel(*given):
        calls.append(given)
        return emulated(*given)

    for number, pack in enumerate(packs(build_tree(sequences, least), budget)):
        del stack[pack.depth :]
        query, key, value = random_qkv(len(pack.tokens), number)
        layout = Layout(pack.segments, [[kv] for kv in stack], pack.keep)
        one = Layout(pack.segments, [[kv] for kv in stack], pack.keep, many_runs=kernel)
        plain, ours = (attend_tree(it, query, key, value, 0.3) for it in (layout, one))
        assert ours.shape == plain.shape
        assert float((ours - plain).abs().max()) <= 1e-5
        assert len(calls) == number + 1
        gathered = calls[-1][1]
        assert len(gathered) <= MOST_COPIED * len(pack.tokens)
        if pack.keep is not None:
            stack.append(one.cached[0])
            assert torch.equal(stack[-1][0], layout.cached[0][0])


@given(FEW, st.integers(1, 3), st.integers(1, 30), st.integers(1, 12))
def test_each_run_is_given_the_rows_of_what_it_sees(sequences, least, budget, most):
    path = []
    for pack in packs(build_tree(sequences, least), budget):
        del path[pack.depth :]
        plan = plan_gather(pack.segments, path, "cpu", most)
        base = sum(path[k] for k in plan.past)
        n, apart = len(pack.tokens), plan.apart
        rows = range(n) if plan.rows is None else plan.rows.tolist()
        run_ends, key_ends = plan.run_ends.tolist(), plan.key_ends.tolist()
        assert len(rows) == key_ends[-1] <= most * n
        for k, run in enumerate(pack.segments):
            assert (run_ends[k], run_ends[k + 1]) == (run.start, run.stop)
            seen = [
                j + base
                for it in pack.segments[: k + 1]
                if it is run or (it.stop <= run.start < it.below and it not in apart)
                for j in range(it.start, it.stop)
            ]
            assert list(rows[key_ends[k] : key_ends[k + 1]]) == [*range(base), *seen]
        assert plan.longest[0] == max(it.stop - it.start for it in pack.segments)
        assert plan.longest[1] == max(b - a for a, b in zip(key_ends, key_ends[1:], strict=False))
        if pack.keep is not None:
            kept = pack.segments[pack.keep]
            path.append(kept.stop - kept.start)


def test_a_long_beginning_of_many_short_ends_is_not_copied_for_each():
    beginning = list(range(3, 203))
    (pack,) = packs(build_tree([[*beginning, 300 + k] for k in range(300)]), 10_000)
    plan = plan_gather(pack.segments, (), "cpu")
    assert plan.apart == pack.segments[:1]
    assert plan.rows is None, "what is left is each run by itself"
    (alone,) = packs(build_tree([beginning]), 10_000)
    assert plan_gather(alone.segments, (), "cpu").rows is None
    kept = plan_gather(alone.segments, [10_000, 5], "cpu")
    assert kept.past == (1,)


def loaded(tiny, monkeypatch, kernel):
    monkeypatch.setattr(local_model, "many_runs_of", lambda device, dtype: kernel)
    return load(tiny.model())


def test_layers_attend_once_a_pass_and_the_plan_is_made_once_a_pack(tiny, monkeypatch):
    calls, plans = [], []

    def kernel(*given):
        calls.append(given[0].shape[0])
        return emulated(*given)

    local = loaded(tiny, monkeypatch, kernel)
    assert local.many_runs is kernel and local.read_mode.tree
    assert not any("run by run" in note for note in local.notes)
    monkeypatch.setattr(
        local_attention, "plan_gather", lambda *given: plans.append(given) or plan_gather(*given)
    )
    encoded, expected = encode(local), plain_log_probabilities(tiny.model())
    for local.budget in (64, 333, 4096):
        calls.clear(), plans.clear()
        assert_close(log_probabilities(local, encoded), expected)
        assert len(calls) == local.layers * len(plans) > 0


def test_the_kernels_copies_are_part_of_the_memory_that_is_promised(tiny, monkeypatch):
    local = loaded(tiny, monkeypatch, emulated)
    config = local.model.config
    row = 2 * config.num_key_value_heads * config.head_dim * local.dtype.itemsize
    with_copies = local.memory(500)
    local.many_runs = None
    assert with_copies - local.memory(500) >= row * (MOST_COPIED * local.budget + 500)


def top_left(query, key, value, gather, scale):
    out, weight = emulated(query, key, value, gather, scale)
    first = gather.key_ends[:-1].tolist()
    for run, start in zip(gather.run_ends.tolist(), first, strict=False):
        out[run] = value[start].repeat_interleave(query.shape[1] // key.shape[1], dim=0)
    return out, weight


def wrong_weights(*given):
    out, weight = emulated(*given)
    return out, weight + 1


def breaks(*given):
    raise RuntimeError("no kernel image is available for execution on the device\nmore")


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (top_left, "it changes attention by "),
        (wrong_weights, "it changes attention by "),
        (lambda *given: (it * float("nan") for it in emulated(*given)), "by nan"),
        (breaks, "no kernel image is available for execution on the device)"),
    ],
)
def test_a_kernel_that_fails_or_is_wrong_is_not_used_and_one_note_says_so(
    tiny, monkeypatch, kernel, why
):
    local = loaded(tiny, monkeypatch, kernel)
    assert local.many_runs is None and local.read_mode.tree
    (note,) = [note for note in local.notes if "run by run" in note]
    assert why in note and "\n" not in note
    assert_close(log_probabilities(local, encode(local)), plain_log_probabilities(tiny.model()))


def test_a_head_of_another_width_goes_run_by_run(tiny, monkeypatch):
    monkeypatch.setattr(local_model, "many_runs_of", lambda device, dtype: breaks)
    local = load(tiny.model(head_dim=12))
    assert local.many_runs is None and local.read_mode.tree
    assert not any("run by run" in note for note in local.notes), "none was tried"


def test_a_processor_has_no_such_kernel(tiny):
    assert load(tiny.model()).many_runs is None
    assert local_model.many_runs_of("cpu", torch.bfloat16) is None


@pytest.mark.parametrize(
    ("dtype", "width", "card", "kernel"),
    [
        (torch.float16, 64, (7, 5), "efficient"),
        (torch.bfloat16, 64, (9, 0), "flash"),
        (torch.bfloat16, 512, (9, 0), "efficient"),
        (torch.bfloat16, 60, (9, 0), "written out"),
        (torch.float32, 60, (9, 0), "efficient"),
        (torch.float32, 62, (9, 0), "written out"),
    ],
)
def test_run_by_run_a_card_is_asked_for_a_kernel_that_it_has(
    monkeypatch, dtype, width, card, kernel
):
    def called(name):
        return lambda query, *rest, **options: (name, torch.zeros(query.shape[:-1]))

    aten = SimpleNamespace(
        _scaled_dot_product_flash_attention=called("flash"),
        _scaled_dot_product_efficient_attention=called("efficient"),
    )
    cuda = SimpleNamespace(get_device_capability=lambda device: card)
    there = SimpleNamespace(ops=SimpleNamespace(aten=aten), cuda=cuda, float32=torch.float32)
    monkeypatch.setattr(local_kernels, "import_torch", lambda: there)
    monkeypatch.setattr(local_kernels, "written_out", lambda *given: ("written out", None))
    query = SimpleNamespace(shape=(1, 2, 3, width), dtype=dtype, device=torch.device("cuda"))
    assert local_kernels._kernel(query, query, query, False, 0.1)[0] == kernel
