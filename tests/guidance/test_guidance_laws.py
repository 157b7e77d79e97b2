"""Fusion, keep-sets and candidates by brute force."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from palate.errors import UsageError
from palate.guidance import PRESETS, Candidates, Fusion, TokenFilter, amulet_shift, weighted

V = 6
NONE = -math.inf
finite = st.integers(-64, 0).map(lambda eighths: eighths / 8)
"""So that unlike values are unlike as probabilities too, and ties are ties."""
row = st.lists(finite, min_size=V, max_size=V)
coefficient = st.sampled_from([-1.5, -0.1, 0.0, 0.3, 1.0, 2.0])
keeps = st.one_of(
    st.just(TokenFilter()),
    st.builds(
        TokenFilter, st.just("top-k"), st.integers(1, V + 2), st.sampled_from(["policy", "guide"])
    ),
    st.builds(
        TokenFilter, st.just("top-p"), st.floats(0.05, 1), st.sampled_from(["policy", "guide"])
    ),
    st.builds(
        TokenFilter, st.just("share"), st.floats(0.01, 1), st.sampled_from(["policy", "guide"])
    ),
)


def tensor(*rows):
    return torch.tensor(rows, dtype=torch.float32)


def ruled(draws, out):
    return [NONE if k in out else value for k, value in enumerate(draws)]


@st.composite
def members(draw):
    policy, guide = draw(row), draw(row)
    out = draw(st.sets(st.integers(1, V - 1), max_size=2))  # word 0 is never ruled out
    other = draw(st.sets(st.integers(1, V - 1), max_size=2))
    return ruled(policy, out), ruled(guide, other)


def kept(keep, values):
    """Say word by word which are kept; a word whose place is a matter of rounding is None."""
    if keep.how == "all":
        return [True] * V
    if keep.how == "share":
        bar = max(values) + math.log(keep.number)
        return [None if abs(x - bar) < 1e-5 else x > bar for x in values]
    order = sorted(range(V), key=lambda v: -values[v])
    if keep.how == "top-k":
        inside = order[: int(keep.number)]
        edge = values[inside[-1]]
        tied = sum(value == edge for value in values) > 1 and len(inside) < V
        return [None if tied and values[v] == edge else v in inside for v in range(V)]
    total = sum(math.exp(x) for x in values)
    made, held = [False] * V, 0.0
    for v in order:
        near = abs(held - keep.number) < 1e-5
        made[v] = None if near else held < keep.number
        held += math.exp(values[v]) / total
    # Which of several words with one value comes first is the sort's business.
    for v in range(V):
        alike = [made[u] for u in range(V) if values[u] == values[v]]
        if len(set(alike)) > 1:
            made[v] = None
    return made


@given(members(), coefficient, coefficient, keeps, st.one_of(st.none(), st.integers(0, V - 1)))
def test_logits_are_the_sum_on_the_keep_set(both, c_p, c_g, keep, also):
    policy, guide = both
    given_also = None if also is None else torch.tensor([also])
    made = Fusion(c_p, c_g, keep).logits(tensor(policy), tensor(guide), given_also)[0].tolist()
    stays = kept(keep, policy if keep.of == "policy" else guide)
    for v in range(V):
        out = policy[v] == NONE or (c_g != 0 and guide[v] == NONE)
        if out or (stays[v] is False and v != also):
            assert made[v] == NONE
        elif stays[v] is None and v != also:
            continue
        else:
            expected = (c_p * policy[v] if c_p else 0) + (c_g * guide[v] if c_g else 0)
            assert made[v] == pytest.approx(expected, abs=1e-4)
    assert not any(math.isnan(value) for value in made)


def test_a_weight_of_0_leaves_a_member_out_whatever_it_says():
    policy, guide = tensor([-1.0, -2.0, NONE]), tensor([NONE, math.nan, 3.0])
    assert Fusion(1, 0).logits(policy, guide).tolist() == policy.tolist()
    assert Fusion(0, 1).logits(policy, tensor([-5.0, NONE, -1.0]))[0].tolist() == [-5, NONE, NONE]


def test_a_negative_coefficient_makes_nothing_likely_that_is_ruled_out():
    law = Fusion(-1.0, 2.0)
    made = law.logits(tensor([NONE, -1.0, -2.0]), tensor([-1.0, NONE, -1.0]))
    assert made[0].tolist() == [NONE, NONE, 0.0]


def test_top_p_holds_the_word_that_reaches_it_and_no_more():
    logp = tensor([0.5, 0.3, 0.2]).log()
    for number, expected in ((0.5, 1), (0.51, 2), (0.79, 2), (0.81, 3), (1.0, 3), (0.01, 1)):
        mask = TokenFilter("top-p", number).mask(logp)
        assert mask is not None
        assert mask[0].tolist() == [k < expected for k in range(3)]


def test_what_is_kept_in_any_case_is_not_what_is_ruled_out():
    policy, guide = tensor([-1.0, -9.0, NONE]), tensor([0.0, 0.0, 0.0])
    law = Fusion(1, 1, TokenFilter("top-k", 1))
    assert law.logits(policy, guide, torch.tensor([1]))[0].tolist() == [-1, -9, NONE]
    assert law.logits(policy, guide, torch.tensor([2]))[0].tolist() == [-1, NONE, NONE]


@given(st.lists(row, min_size=1, max_size=3), st.data())
def test_a_sum_of_members_and_what_rules_out(parts, data):
    n = len(parts)
    coefficients = data.draw(st.lists(coefficient, min_size=n, max_size=n))
    out = [data.draw(st.sets(st.integers(0, V - 1), max_size=2)) for _ in parts]
    ruled_parts = [ruled(part, of) for part, of in zip(parts, out, strict=True)]
    made = weighted(coefficients, [tensor(part) for part in ruled_parts])[0].tolist()
    for v in range(V):
        counted = [(c, part[v]) for c, part in zip(coefficients, ruled_parts, strict=True) if c]
        if any(value == NONE for _, value in counted):
            assert made[v] == NONE
        else:
            assert made[v] == pytest.approx(sum(c * x for c, x in counted), abs=1e-4)


@given(row, row, st.integers(1, V + 2), st.floats(0, 3), st.integers(0, V - 1))
def test_candidates_are_the_likeliest_and_one_more(policy, rewards, k, weight, also):
    law, of = Candidates(weight, k), tensor(policy)
    tokens = law.tokens(of)
    assert sorted(of[0, tokens[0]].tolist()) == sorted(policy)[-min(k, V) :]
    more = law.tokens(of, torch.tensor([also]))
    assert {*more[0].tolist()} == {*tokens[0].tolist(), also}
    made = law.logits(of, more, tensor(rewards).gather(-1, more))
    counted = {}
    for token, value in zip(more[0].tolist(), made[0].tolist(), strict=True):
        if value != NONE:
            assert token not in counted
            counted[token] = value
    expected = {v: policy[v] + weight * rewards[v] for v in more[0].tolist()}
    assert counted == pytest.approx(expected, abs=1e-4)


def test_rows_that_miss_nothing_repeat_a_candidate_that_counts_once():
    policy = tensor([-1.0, -2.0, -3.0, -4.0], [-1.0, -2.0, -3.0, -4.0])
    law = Candidates(1.0, 2)
    tokens = law.tokens(policy, torch.tensor([3, 0]))
    assert tokens.tolist() == [[0, 1, 3], [0, 1, 1]]
    made = law.logits(policy, tokens, torch.zeros(2, 3))
    assert made.tolist() == [[-1, -2, -4], [-1, -2, NONE]]


def test_a_weight_of_0_hears_no_reward_and_no_reward_revives_what_is_no_token():
    policy, tokens = tensor([-1.0, NONE]), torch.tensor([[0, 1]])
    rewards = tensor([math.nan, NONE])
    assert Candidates(0.0).logits(policy, tokens, rewards).tolist() == [[-1, NONE]]
    for reward in (math.nan, math.inf, 3.0):
        made = Candidates(1.0).logits(policy, tokens, tensor([2.0, reward]))
        assert made.tolist() == [[1, NONE]]


def test_what_means_nothing_is_refused():
    for law in (Candidates(1.0, 0), Candidates(-1.0), Candidates(math.nan), Candidates(math.inf)):
        with pytest.raises(UsageError):
            law.check()
    for weight in (math.nan, math.inf):
        with pytest.raises(UsageError, match="finite"):
            PRESETS["genarm"].law(weight)


def test_a_preset_takes_another_keep_set_and_amulet_is_linear_alignment():
    assert PRESETS["pad"].law(0.5).keep == TokenFilter("top-k", 10)
    assert PRESETS["pad"].law(0.5, TokenFilter()).keep == TokenFilter()
    shift = amulet_shift()
    assert PRESETS["amulet"].law(shift) == PRESETS["linear-alignment"].law(shift, TokenFilter())
    assert amulet_shift(0) == 0


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_a_law_at_its_weight(name):
    preset = PRESETS[name]
    made = preset.law(preset.weight)
    assert (made.policy, made.guide) == (preset.policy(preset.weight), preset.guide(preset.weight))
    assert made.keep == preset.keep
    assert str(made.keep)
