"""Rotary positions whose factors depend on the length, against each sequence read by itself."""

from __future__ import annotations

import logging
from functools import cache

import pytest
import torch
import transformers
from plain_forward import DENSE, TOLERANCE, load

from palate.engines import local_forward as forward
from palate.engines.local_decoding import generate, sample
from palate.engines.local_loading import RotaryRegimes
from palate.engines.local_rows import TreeRows, begin_rows
from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session
from tiny import make_slate

LIMIT = 64
LONG = {
    "rope_type": "longrope", "rope_theta": 10000.0, "factor": 16.0, "short_factor": [1.0] * 4,
    "long_factor": [6.0, 5.0, 4.0, 3.0], "original_max_position_embeddings": LIMIT,
}  # fmt: skip
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}
PHI = {"rope_parameters": LONG, "original_max_position_embeddings": LIMIT, "pad_token_id": 0}
MODELS = {
    "Phi-3, LongRoPE": ("Phi3ForCausalLM", PHI),
    "Llama, LongRoPE": ("LlamaForCausalLM", {"rope_parameters": LONG}),
    "Llama, dynamic NTK": (
        "LlamaForCausalLM", {"rope_parameters": DYNAMIC, "max_position_embeddings": LIMIT}
    ),
    "Qwen 2, windows and dynamic NTK": (
        "Qwen2ForCausalLM",
        {
            "rope_parameters": DYNAMIC, "max_position_embeddings": LIMIT, "sliding_window": 40,
            "use_sliding_window": True, "max_window_layers": 1,
        },
    ),
}  # fmt: skip
PREFIX = [(7 * k * k + 3 * k) % 900 + 50 for k in range(50)]
LENGTHS = (55, 64, 65, 90, 90, 120)
SEQUENCES = [[*PREFIX, *((n * k + 11) % 900 + 50 for k in range(n - 50))] for n in LENGTHS]
SEQUENCES[4][-1] += 1
ENCODED = [(ids, 50) for ids in SEQUENCES]


@cache
def plain(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


@torch.inference_mode()
def alone(folder, ids):
    """Read one sequence as a fresh model does."""
    plain(folder)(torch.tensor([[5]]))  # dynamic factors are those of the longest that was read
    return plain(folder)(torch.tensor([list(ids)])).logits[0]


def log_p(folder, ids, start):
    logp = torch.log_softmax(alone(folder, ids)[:-1].double(), dim=-1)
    return logp[range(start - 1, len(ids) - 1), list(ids[start:])].float()


def apart(ours, theirs):
    return max(float((a - b).abs().max()) for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("name", MODELS)
def test_a_sequence_has_the_factors_of_its_own_length_whatever_is_beside_it(tiny, name):
    folder = tiny.of(MODELS[name])
    local = load(folder)
    assert local.regimes == RotaryRegimes(LIMIT, per_length="dynamic" in name)
    expected = [log_p(folder, *it) for it in ENCODED]
    short = torch.log_softmax(alone(folder, SEQUENCES[3])[:60].double(), dim=-1)
    near = torch.log_softmax(alone(folder, SEQUENCES[3][:60]).double(), dim=-1)
    assert float((short - near).abs().max()) > 100 * TOLERANCE, "the factors make no difference"
    for mode in dict.fromkeys((local.read_mode, DENSE)):
        local.read_mode = mode
        for budget in (64, 200, 4096):
            local.budget = budget
            ((_, ours),) = local.log_probabilities([ENCODED])
            assert apart(ours, expected) <= TOLERANCE
            found = dict(local.log_probabilities([ENCODED[::-1], ENCODED[:2], [ENCODED[0]]]))
            assert apart(found[0], expected[::-1]) <= TOLERANCE
            assert apart(found[1] + found[2], [*expected[:2], expected[0]]) <= TOLERANCE


@pytest.mark.parametrize("name", MODELS)
def test_the_next_token_is_that_of_the_sequence_alone(tiny, name):
    folder = tiny.of(MODELS[name])
    local = load(folder)
    expected = [alone(folder, ids)[-1] for ids in SEQUENCES]
    assert apart(local.next_token_logits(SEQUENCES), expected) <= TOLERANCE
    ((_, labels),) = local.label_logits([SEQUENCES], [300, 301])
    for ((a, b), _), logits in zip(labels, expected, strict=True):
        assert a - b == pytest.approx(float(logits[300] - logits[301]), abs=TOLERANCE)


@pytest.mark.parametrize("prompt", [55, 70])
@pytest.mark.parametrize("name", MODELS)
def test_what_is_written_across_the_limit_is_what_each_beginning_asks_for(
    tiny, name, prompt, caplog
):
    folder = tiny.of(MODELS[name])
    local = load(folder)
    ids, expected = SEQUENCES[5][:prompt], []
    for _ in range(14):
        expected.append(int(alone(folder, [*ids, *expected])[-1].argmax()))
    (drawn,) = sample(local, ids, 1, 14, temperature=0)
    assert drawn.ids == expected[: len(drawn.ids)]
    local.text = lambda made: " ".join(map(str, made))
    beside = SEQUENCES[5][:30]
    ((_, _, _), (_, text, _)) = generate(local, [beside, ids], 14)
    written = list(map(int, text.split()))
    assert written == expected[: len(written)]
    crosses = prompt <= LIMIT or "dynamic" in name
    assert any("change beyond 64 tokens" in said for said in caplog.messages) == crosses


@pytest.mark.parametrize("name", MODELS)
def test_rows_that_grow_past_the_limit_equal_their_beginnings_read_alone(tiny, name):
    folder = tiny.of(MODELS[name])
    local = load(folder)
    prompts = [SEQUENCES[5][:60], SEQUENCES[5][:60], SEQUENCES[3][:58]]
    rows = begin_rows(local, prompts, 12, logits=True)
    texts = [list(ids) for ids in prompts]
    for step in range(12):
        assert apart(rows.outputs, [alone(folder, ids)[-1] for ids in texts]) <= TOLERANCE
        looked = rows.look([[100 + step, 200 + step]] * 3)
        for row, ids in enumerate(texts):
            assert apart(looked[row, :1], [alone(folder, [*ids, 100 + step])[-1]]) <= TOLERANCE
        if step % 2:
            rows.take([0, 1, 0])
            more = [100 + step, 200 + step, 100 + step]
        else:
            more = [300, 301, 302]
            rows.advance(more)
        texts = [[*ids, token] for ids, token in zip(texts, more, strict=True)]


def test_a_side_that_is_not_crossed_is_written_with_what_is_kept(tiny, caplog):
    local = load(tiny.of(MODELS["Llama, LongRoPE"]))
    with caplog.at_level(logging.WARNING):
        for length, room in ((40, 24), (65, 30)):
            rows = begin_rows(local, [SEQUENCES[5][:length]], room)
            assert isinstance(rows, TreeRows)
    assert caplog.messages == []


def test_a_classifiers_reward_is_that_of_the_response_alone(tiny):
    folder = tiny.model("Phi3ForSequenceClassification", num_labels=1, **PHI)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    scorer = build_scorer(f"classifier:{folder}", Session(), Settings())
    slate = make_slate("Tea.", "Tea, " * 40, "Coffee then.", "Coffee, " * 60, question="?")
    ids = scorer._encoded(slate)
    assert min(map(len, ids)) < LIMIT < max(map(len, ids))
    with torch.inference_mode():
        expected = [float(model(torch.tensor([list(it)])).logits) for it in ids]
    ((_, scores),) = scorer.score([slate])
    assert scores.values == pytest.approx(expected, abs=TOLERANCE)
    pooled = dict(scorer.local.model.pooled(ids))
    assert [float(pooled[k]) for k in range(4)] == pytest.approx(expected, abs=TOLERANCE)


def test_threads_that_read_both_sides_at_once_do_not_mix_them(tiny, monkeypatch):
    folder = tiny.of(MODELS["Llama, dynamic NTK"])
    local = load(folder)
    monkeypatch.setattr(forward, "workers", lambda *_: 4)
    monkeypatch.setattr(forward, "loads_apart", lambda loads, *_, **__: len(loads))
    local.budget = 256
    groups = [[it] for it in ENCODED] * 6
    found = dict(local.log_probabilities(groups))
    expected = [log_p(folder, *it) for it in ENCODED]
    for k, group in found.items():
        assert apart(group, [expected[k % len(ENCODED)]]) <= TOLERANCE
