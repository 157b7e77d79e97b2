"""The bench of guidance measures what it says, on a tiny model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from bench_decoding import CASES, PROMPT, RESPONSE, DecodingCase, bench_decoding

from palate.engines import LocalModel
from palate.records import Settings


@pytest.mark.parametrize("model", ["a folder", "random:0.1b"])
def test_every_case_is_measured(tiny, model):
    cases = CASES if model == "a folder" else CASES[:1]
    found = bench_decoding(
        tiny.model() if model == "a folder" else model,
        settings=Settings(dtype="float32"), cases=cases, written=3, turns=1,
    )  # fmt: skip
    assert [(one.case, one.rows) for one in found] == [(case.name, case.rows) for case in cases]
    for one in found:
        assert min(one.plain_s, one.guided_s) > 0
        assert one.ratio == pytest.approx(one.plain_s / one.guided_s)
        scored = one.case.startswith("decoder")
        assert one.tokens == one.rows * (RESPONSE if scored else 3)


def test_guided_writing_reads_two_models_and_no_token_ends_it(tiny, monkeypatch):
    loaded: list[LocalModel] = []
    monkeypatch.setattr(
        "bench_decoding.LocalModel", lambda *given: loaded.append(LocalModel(*given)) or loaded[-1]
    )
    widths: dict[int, list[int]] = {}

    def progress(done: int, total: int) -> None:
        assert (done, total) == (1, 1)

    settings = Settings(dtype="float32")
    case = DecodingCase("candidates, k = 10", 2)
    real = torch.nn.Module.__call__

    def counted(module, *given, **named):
        for k, local in enumerate(loaded):
            if module is local.model.base_model and "input_ids" in named:
                widths.setdefault(k, []).append(named["input_ids"].shape[1])
        return real(module, *given, **named)

    monkeypatch.setattr(torch.nn.Module, "__call__", counted)
    bench_decoding(
        tiny.model(), settings=settings, cases=[case], written=3, turns=1, progress=progress
    )
    policy, guide = (widths[k][-6:] for k in (0, 1))
    assert policy[-3:] == [PROMPT, 2, 2], "a prompt and two steps of two rows"
    assert guide[-4:] == [PROMPT, 20, 20, 20], "a prompt and ten candidates of two rows a step"
    assert len(loaded) == 2
