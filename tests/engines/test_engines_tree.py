"""Packs of a tree, and attention over them, against the definitions."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from palate.engines.local_attention import (
    KVSteps,
    Layout,
    attend_rows,
    attend_tree,
    causal,
    dense,
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
