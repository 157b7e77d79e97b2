"""The law of a guided policy along a response: limits, and every weight against the law itself."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from palate.guidance import (
    PRESETS,
    Candidates,
    Fusion,
    TeacherForced,
    TokenFilter,
    candidate_sums,
    fused_sums,
    token_sums,
)
from palate.records import Settings
from palate.scorers import build_scorer
from palate.scorers.classifier import Classifier
from palate.session import Session
from tiny import make_slate


def logits(seed: int, rows: int = 4, words: int = 12) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed)
    return (2.5 * torch.randn(rows, words, generator=made)).log_softmax(-1)


@given(st.integers(0, 10_000), st.floats(0.05, 20))
def test_sums_are_those_of_the_law_at_every_weight(seed, weight):
    policy, guide = logits(seed), logits(seed + 1)
    at = torch.tensor([0, 3, 7, 11])
    made = token_sums(policy, guide, at, [weight])
    law = Fusion(1.0, weight).logits(policy, guide).log_softmax(-1)
    assert torch.allclose(made[f"{weight:.17g}"], law[range(4), at], atol=1e-4)
    assert torch.allclose(made["base"], policy[range(4), at], atol=1e-5)
    regret = guide[range(4), at] - guide.amax(dim=-1)
    assert torch.allclose(made["limit"], regret, atol=1e-5)


@given(st.integers(0, 10_000))
def test_the_slope_and_the_limit_are_limits(seed):
    policy, guide = logits(seed), logits(seed + 1)
    at = torch.tensor([1, 2, 3, 4])
    small, large = 1e-3, 1e4
    made = token_sums(policy.double(), guide.double(), at, [small, large])
    rise = (made[f"{small:.17g}"] - made["base"]) / small
    assert torch.allclose(rise, made["slope"], atol=0.05)
    expected = guide[range(4), at] - (policy.exp() * guide).sum(-1)
    assert torch.allclose(made["slope"], expected, atol=1e-4)
    assert torch.allclose(made[f"{large:.17g}"] / large, made["limit"], atol=1e-2)


def test_what_the_guide_rules_out_counts_at_weight_0_alone():
    policy, guide = logits(0, 1, 4), logits(1, 1, 4)
    guide[0, 2] = -math.inf
    made = token_sums(policy, guide, torch.tensor([1]), [1.0])
    assert math.isclose(float(made["base"]), float(policy[0, 1]), abs_tol=1e-6)
    law = Fusion(1.0, 1.0).logits(policy, guide).log_softmax(-1)
    assert math.isclose(float(made["1"]), float(law[0, 1]), abs_tol=1e-5)
    assert math.isfinite(float(made["slope"]))
    ruled_out = token_sums(policy, guide, torch.tensor([2]), [1.0])
    assert float(ruled_out["1"]) == -math.inf and math.isfinite(float(ruled_out["base"]))


@pytest.mark.parametrize("method", sorted(PRESETS))
def test_a_fusion_of_two_models_is_the_law_token_by_token(tiny, method):
    session, settings = Session(), Settings()
    policy = build_scorer(f"likelihood:{tiny.model()}", session, settings)
    other = tiny.model(initializer_range=0.5)
    preset = PRESETS[method]
    spec = (
        f"implicit:{other}?reference={tiny.model()}" if preset.guide_is == "difference"
        else f"autoregressive:{other}"
    )  # fmt: skip
    guide = build_scorer(spec, session, settings).token_guide()
    ids = tuple(policy.prompt_ids(make_slate("a")))
    response = (40, 77, 300, 2)
    local = policy.local.model
    read = guide.read(make_slate("a"), 4)
    (found,) = fused_sums(
        preset, local, guide, [TeacherForced(ids, read.prompts, response)], [0.5, 2.0]
    )
    for weight in (0.5, 2.0):
        total = 0.0
        for at, token in enumerate(response):
            before = response[:at]
            p = local.next_token_logits([(*ids, *before)]).log_softmax(-1)
            g = sum(
                c * model.next_token_logits([(*prompt, *before)]).log_softmax(-1)
                for c, model, prompt in zip(
                    guide.coefficients, guide.models, read.prompts, strict=True
                )
            )
            logits = preset.law(weight).logits(p, g, also=torch.tensor([token]))
            total += float(logits.log_softmax(-1)[0, token])
        assert math.isclose(found[f"{weight:g}" if weight == 2 else "0.5"], total, abs_tol=2e-3)
    assert found["tokens"] == 4
    assert (found["misses"] > 0) == (preset.keep != TokenFilter())


def test_candidates_are_the_law_on_the_policys_best_and_the_token_itself(tiny):
    session, settings = Session(), Settings()
    policy = build_scorer(f"likelihood:{tiny.model()}", session, settings)
    scorer = build_scorer(f"classifier:{tiny.classifier()}", session, settings)
    assert isinstance(scorer, Classifier)
    guide, local = scorer.prefix_guide(), policy.local.model
    slate = make_slate("a", "b")
    ids = tuple(policy.prompt_ids(slate))
    read = guide.read(slate, 4)
    texts = [(40, 77, 300, 2), (12, 2)]
    forced = [TeacherForced(ids, read.prompts, text) for text in texts]
    law = Candidates(1.0, 5)
    found = candidate_sums(law, local, guide, slate, forced, [3.0])
    weight = scorer.local.model.model.score.weight[0].detach().float()
    for text, sums in zip(texts, found, strict=True):
        base = total = 0.0
        missed = 0
        for at, token in enumerate(text):
            p = local.next_token_logits([(*ids, *text[:at])]).log_softmax(-1)[0]
            best = p.topk(5).indices.tolist()
            missed += token not in best
            choices = list(dict.fromkeys([*best, token]))
            closed = {
                v: (*read.prompts[0], *text[:at],
                    *((v,) if v not in local.ends else guide.closing)) for v in choices
            }  # fmt: skip
            rewards = []
            for v in choices:
                whole = closed[v]
                place = guide.read_position(whole)
                model = scorer.local.model.model.base_model
                with torch.no_grad():
                    hidden = model(torch.tensor([whole])).last_hidden_state[0, place]
                rewards.append(float(hidden.float() @ weight))
            s0 = p[choices].double()
            mine = choices.index(token)
            base += float(s0[mine] - s0.logsumexp(0))
            s = s0 + 3.0 * torch.tensor(rewards).double()
            total += float(s[mine] - s.logsumexp(0))
        assert math.isclose(sums["base"], base, abs_tol=1e-3)
        assert math.isclose(sums["3"], total, abs_tol=5e-3)
        assert sums["misses"] == missed
