"""Packs of a tree, and attention over them, against the definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.engines import local_kernels
from palate.engines.local_attention import KVSteps, Layout, attend_rows, attend_tree
from palate.engines.local_kernels import (
    by_products,
    causal,
    dense,
    products_are_fast,
    written_out,
)
from palate.engines.local_tree import LEAST_SHARED, build_tree, packs

FEW = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=8)


def walk(nodes):
    for node in nodes:
        yield node
        yield from walk(node.children)


@given(FEW, st.integers(1, 4))
def test_a_tree_holds_every_sequence_and_no_shared_beginning_twice(sequences, least):
    roots = build_tree(sequences, least)
    spelled = [[] for _ in sequences]
    for node in walk(roots):
        for k in node.sequences:
            assert node.offset == len(spelled[k])
            spelled[k] += node.tokens
    assert spelled == [list(ids) for ids in sequences]
    for siblings in (roots, *(node.children for node in walk(roots))):
        starts = [node.tokens[:least] for node in siblings if len(node.tokens) >= least]
        assert len(starts) == len(set(starts)), "two siblings begin alike"


def test_a_short_shared_beginning_is_not_worth_a_node():
    short, long = list(range(LEAST_SHARED - 1)), list(range(LEAST_SHARED))
    assert len(build_tree([[*short, 50], [*short, 60]])) == 2
    (root,) = build_tree([[*long, 50], [*long, 60]])
    assert root.size == LEAST_SHARED + 2


@given(FEW, st.integers(1, 3), st.integers(1, 30))
def test_packs_read_each_node_once_within_the_budget_below_their_ancestors(
    sequences, least, budget
):
    roots = build_tree(sequences, least)
    read, path = [], []
    for pack in packs(roots, budget):
        assert 0 < len(pack.tokens) <= budget
        del path[pack.depth :]
        for j, segment in enumerate(pack.segments):
            assert segment.stop <= segment.below <= len(pack.tokens)
            run = pack.tokens[segment.start : segment.stop]
            places = pack.positions[segment.start : segment.stop]
            assert places == tuple(range(segment.offset, segment.offset + len(run)))
            above = [
                pack.tokens[other.start : other.stop]
                for other in pack.segments[:j]
                if other.stop <= segment.start < other.below
            ]
            before = [token for part in [*path, *above] for token in part]
            for k in segment.sequences:
                assert list(sequences[k][: segment.offset]) == before
                assert tuple(sequences[k][segment.offset :][: len(run)]) == run
            read += [(k, segment.offset + n) for k in segment.sequences for n in range(len(run))]
        if pack.keep is not None:
            kept = pack.segments[pack.keep]
            path.append(pack.tokens[kept.start : kept.stop])
    assert sorted(read) == sorted(
        (k, n) for k, ids in enumerate(sequences) for n in range(len(ids))
    )
    assert sum(len(pack.tokens) for pack in packs(roots, budget)) == sum(r.size for r in roots)


HEADS, GROUPS, WIDTH = 4, 2, 8


def random_qkv(n, seed=0):
    made = torch.Generator().manual_seed(seed)
    return (
        torch.randn(1, HEADS, n, WIDTH, generator=made),
        torch.randn(1, GROUPS, n, WIDTH, generator=made),
        torch.randn(1, GROUPS, n, WIDTH, generator=made),
    )


def by_definition(query, key, value, seen):
    """Softmax over the seen keys, one big mask, in float64."""
    key, value = (it.repeat_interleave(HEADS // GROUPS, dim=1).double() for it in (key, value))
    scores = query.double() @ key.transpose(-1, -2) * WIDTH**-0.5
    return torch.softmax(scores.masked_fill(~seen, float("-inf")), dim=-1) @ value


@settings(max_examples=60)
@given(FEW, st.integers(1, 3), st.integers(1, 30))
def test_attention_over_packs_is_a_softmax_over_the_tokens_before(sequences, least, budget):
    stack, tokens_seen, width = [], [], WIDTH**-0.5
    for number, pack in enumerate(packs(build_tree(sequences, least), budget)):
        del stack[pack.depth :], tokens_seen[pack.depth :]
        query, key, value = random_qkv(len(pack.tokens), number)
        layout = Layout(pack.segments, [[kv] for kv in stack], pack.keep)
        ours = attend_tree(layout, query, key, value, width)
        keys = torch.cat([*(k for k, _ in stack), key], dim=2)
        values = torch.cat([*(v for _, v in stack), value], dim=2)
        kept = keys.shape[2] - key.shape[2]
        seen = torch.zeros(query.shape[2], keys.shape[2], dtype=torch.bool)
        seen[:, :kept] = True
        for start, stop, below, *_ in pack.segments:
            run = torch.ones(stop - start, stop - start, dtype=torch.bool).tril()
            seen[start:stop, kept + start : kept + stop] = run
            seen[stop:below, kept + start : kept + stop] = True
        theirs = by_definition(query, keys, values, seen)
        assert float((ours - theirs).abs().max()) <= 1e-5
        if pack.keep is not None:
            stack.append(layout.cached[0])


@given(st.integers(1, 70), st.integers(1, 70), st.booleans(), st.integers(1, 16))
@settings(max_examples=40)
def test_the_fast_kernels_equal_the_formula(rows, keys, is_causal, seed):
    query, _, _ = random_qkv(rows, seed)
    _, key, value = random_qkv(rows if is_causal else keys, seed + 1)
    fast = (causal if is_causal else dense)(query, key, value, 0.3)
    repeated = [it.repeat_interleave(HEADS // GROUPS, dim=1) for it in (key, value)]
    plain = written_out(query, *repeated, is_causal, 0.3)
    for ours, theirs in zip(fast, plain, strict=True):
        assert ours.shape == theirs.shape
        assert float((ours - theirs).abs().max()) <= 1e-5


multiplies_bfloat16 = pytest.mark.skipif(
    not getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", bool)(),
    reason="oneDNN multiplies no bfloat16 here",
)


def halves(rows, keys, width, size, seed):
    """Draw query, key and value in bfloat16, for as many heads a group as the seed says."""
    made = torch.Generator().manual_seed(seed)
    shapes = [(1, GROUPS * (1 + seed % 3), rows), (1, GROUPS, keys), (1, GROUPS, keys)]
    query, key, value = (torch.randn(*shape, width, generator=made) for shape in shapes)
    return [it.bfloat16() for it in (size * query, size * key, value)]


@multiplies_bfloat16
@given(
    st.integers(1, 450),
    st.integers(1, 450),
    st.booleans(),
    st.sampled_from([8, 12, 64]),
    st.sampled_from([0.125, 0.3]),
    st.sampled_from([0.3, 1.0, 6.0]),
    st.integers(1, 16),
)
@settings(max_examples=40, deadline=None)
def test_products_equal_the_formula_to_the_rounding_of_bfloat16(
    rows, keys, is_causal, width, scale, size, seed
):
    query, key, value = halves(rows, rows if is_causal else keys, width, size, seed)
    out, weight = by_products(query, key, value, is_causal, scale)
    groups = query.shape[1] // GROUPS
    exact = [it.repeat_interleave(groups, dim=1).float() for it in (key, value)]
    theirs, total = written_out(query.float(), *exact, is_causal, scale)
    assert out.dtype == torch.bfloat16
    assert float((out - theirs).norm() / theirs.norm()) <= 0.006
    assert float((weight - total).abs().max()) <= 0.006


@multiplies_bfloat16
@pytest.mark.parametrize("size", [1.0, 300.0])
def test_no_row_of_products_changes_with_the_tokens_behind_it(size):
    query, key, value = halves(400, 400, 64, size, 2)
    before = by_products(query, key, value, True, 0.125)
    key[:, :, 201:], value[:, :, 201:] = -3 * key[:, :, 201:], 5.0
    after = by_products(query, key, value, True, 0.125)
    for was, now in zip(before, after, strict=True):
        assert torch.equal(was[:, :, :201], now[:, :, :201])
        assert not torch.equal(was[:, :, 201:], now[:, :, 201:])


@multiplies_bfloat16
def test_a_row_whose_largest_score_was_not_guessed_is_left_to_a_kernel():
    query, key, value = halves(300, 300, 64, 0.1, 2)
    query[:, :, 250], key[:, :, 1] = 8.0, 8.0  # its own key gives it no hint
    out, weight = by_products(query, key, value, True, 0.125)
    best = value[:, :, 1].repeat_interleave(3, dim=1)
    assert torch.equal(out[:, :, 250], best)
    assert torch.allclose(weight[:, :, 250], torch.tensor(512.0))
    others = [k for k in range(300) if k != 250]
    query[:, :, 250] = 0.0
    alone = by_products(query, key, value, True, 0.125)
    assert torch.equal(out[:, :, others], alone[0][:, :, others])


@multiplies_bfloat16
@pytest.mark.parametrize("is_causal", [True, False])
def test_the_weight_of_a_first_key_that_all_look_at_is_not_rounded(is_causal):
    # Else all that a row takes from other keys would be off by the same share.
    query, key, value = halves(400, 400, 64, 1.0, 2)
    query[..., 0], key[..., 0] = 4.0, 0.0
    key[:, :, 0, 0] = 26.0
    weight = by_products(query, key, value, is_causal, 0.125)[1]
    exact = [it.repeat_interleave(3, dim=1).float() for it in (key, value)]
    total = written_out(query.float(), *exact, is_causal, 0.125)[1]
    assert float((weight - total).abs().max()) <= 1e-3


@multiplies_bfloat16
def test_values_too_small_beside_the_weights_are_left_to_a_kernel(monkeypatch):
    calls = []
    monkeypatch.setattr(local_kernels, "products_are_fast", lambda: True)
    monkeypatch.setattr(local_kernels, "by_products", lambda *them: calls.append(them))
    query, key, value = halves(400, 400, 64, 1.0, 2)
    out, _ = causal(query, key, 1e-12 * value, 0.125)
    groups = query.shape[1] // GROUPS
    exact = [it.repeat_interleave(groups, dim=1).float() for it in (key, 1e-12 * value)]
    theirs, _ = written_out(query.float(), *exact, True, 0.125)
    assert not calls and float((out - theirs).norm() / theirs.norm()) <= 0.006
    causal(query, key, value, 0.125)
    assert calls


@multiplies_bfloat16
@pytest.mark.parametrize("attend", [causal, dense])
@pytest.mark.parametrize(
    ("dtype", "tokens", "fast", "tiles", "limit", "exact", "chosen"),
    [
        (torch.bfloat16, 363, True, False, None, 0.004, True),
        (torch.bfloat16, 362, True, False, None, 0.004, False),
        (torch.float32, 363, True, False, None, 0.004, False),
        (torch.bfloat16, 363, False, False, None, 0.004, False),
        (torch.bfloat16, 363, True, True, None, 0.004, False),
        (torch.bfloat16, 363, True, False, "AVX512_CORE", 0.004, False),
        (torch.bfloat16, 363, True, False, None, 1e-5, False),
    ],
)
def test_products_are_chosen_by_what_the_processor_can(
    monkeypatch, request, attend, dtype, tokens, fast, tiles, limit, exact, chosen
):
    products_are_fast.cache_clear()
    request.addfinalizer(products_are_fast.cache_clear)
    calls = []
    monkeypatch.setattr(local_kernels, "EXACT", exact)
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: fast)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: tiles)
    monkeypatch.delenv("ONEDNN_MAX_CPU_ISA", raising=False)
    monkeypatch.delenv("DNNL_MAX_CPU_ISA", raising=False)
    if limit is not None:
        monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", limit)
    monkeypatch.setattr(local_kernels, "by_products", lambda *them: calls.append(them))
    query, key, value = (it.to(dtype) for it in random_qkv(tokens))
    attend(query, key, value, 0.3)
    assert bool(calls) == chosen


def test_rows_see_the_prompt_and_their_own_steps_alone():
    prompt = random_qkv(5)[1:]
    steps, seen, n = KVSteps(room=4), [], 3
    past = [[prompt]]
    for taken in range(4):
        query, key, value = random_qkv(n, 10 + taken)
        seen.append((key, value))
        steps.prompts = [(0, n, past)]
        layout = Layout(rows=steps)
        ours = attend_rows(layout, query, key, value, WIDTH**-0.5)
        steps.taken += 1
        for row in range(n):
            keys = torch.cat([prompt[0], *(k[:, :, row : row + 1] for k, _ in seen)], dim=2)
            values = torch.cat([prompt[1], *(v[:, :, row : row + 1] for _, v in seen)], dim=2)
            every = torch.ones(1, keys.shape[2], dtype=torch.bool)
            theirs = by_definition(query[:, :, row : row + 1], keys, values, every)
            assert float((ours[:, :, row : row + 1] - theirs).abs().max()) <= 1e-5
        if taken == 1:  # the middle row ends
            steps = KVSteps.join([(steps, [0, 2])])
            seen = [(k[:, :, [0, 2]], v[:, :, [0, 2]]) for k, v in seen]
            n = 2


@pytest.mark.parametrize("rows", [1, 513])
def test_written_out_attention_goes_row_block_by_row_block(rows):
    query, key, value = random_qkv(rows)
    key, value = (it.repeat_interleave(HEADS // GROUPS, dim=1) for it in (key, value))
    out, weight = written_out(query, key, value, True, 0.5)
    assert out.shape == query.shape
    assert weight.shape == query.shape[:3]
    first = torch.softmax(query[:, :, -1:] @ key.transpose(-1, -2) * 0.5, dim=-1) @ value
    assert float((out[:, :, -1:] - first).abs().max()) <= 1e-5
