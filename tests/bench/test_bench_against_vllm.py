"""Which engines are measured side by side, what is printed, and which model is refused."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

from against_vllm import Result, options_parser, print_results, with_engines
from against_vllm_engine import _palate

from palate.engines import local_compile


def options_of(*words: str) -> Namespace:
    parser = options_parser("What is measured.")
    return with_engines(parser.parse_args(words), parser)


def test_a_vllm_for_cpus_is_set_against_no_card(capsys):
    assert options_of("--compiled").engines == (
        "vllm", "vllm compiled", "palate", "palate compiled", "usual",
    )  # fmt: skip
    assert capsys.readouterr().err == ""
    on_card = options_of("--compiled", "--roof", "--device", "cuda:1")
    assert on_card.engines == ("palate", "palate compiled", "usual", "roof")
    said = "vLLM is left out: it is set up for CPUs, not for cuda:1\n"
    assert capsys.readouterr().err == said


def test_ratios_are_of_medians(capsys):
    seconds = {"vllm": [3.0, 9.0, 4.0], "palate": [2.0, 1.0, 8.0]}
    told = Namespace(
        model="m", dtype="float32", turns=3, beside_busy=False, engines=("vllm", "palate")
    )
    print_results([Result("classify, pairs", 100, seconds, 0.5)], told, 2)
    title, heads, line, vllm, palate = capsys.readouterr().out.splitlines()
    assert title == "m, float32, 2 cores; medians of 3 turns"
    assert heads.split() == ["tokens", "vllm", "s", "palate", "s", "over", "vllm", "differ", "by"]
    assert line.split() == ["classify,", "pairs", "100", "4.00", "2.00", "2.00", "x", "0.5000"]
    assert vllm.split()[:3] == ["vllm", "3.00", "s"]
    assert palate.split()[:3] == ["palate", "2.00", "s"]


def test_compiled_layers_that_are_plain_are_not_measured(tiny, monkeypatch, cache):
    def fails(*given):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(local_compile, "_compile", fails)
    told = {"dtype": "float32", "device": "cpu", "threads": 1, "head": "likelihood"}
    model = str(tiny.model())
    score, _ = _palate(model, Namespace(engine="palate", **told))
    assert callable(score)
    with pytest.raises(SystemExit, match=r"its layers are not compiled .*no compiler"):
        _palate(model, Namespace(engine="palate compiled", **told))
