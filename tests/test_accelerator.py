"""What `tools/accelerator.py` says without an accelerator, and that it notices what differs."""

import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))

import accelerator
from accelerator import main, numbers

from palate.errors import ModelError
from palate.models import import_torch

FEW = {"likelihood": accelerator.SCORERS["likelihood"], "judge": accelerator.SCORERS["judge"]}


@pytest.mark.parametrize("named", [(), ("--device", "cuda:99")])
def test_without_an_accelerator_it_is_one_line(
    named: tuple[str, ...], capsys: Any, monkeypatch: Any
) -> None:
    monkeypatch.setattr(import_torch().accelerator, "is_available", lambda: False)
    assert main(named) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "accelerator" in err or "not available here" in err


def test_the_processor_is_like_itself(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(accelerator, "SCORERS", FEW)
    assert main(["--device", "cpu", "--only", "scores"]) == 0
    first, head, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith("cpu, torch ")
    assert head == "| scores | spread | float32 | company | bfloat16 | flips |"
    cells = [row.strip("| ").split(" | ") for row in rows]
    assert [row[0] for row in cells] == list(FEW)
    for _, spread, far, company, half, flips in cells:
        assert float(far) == 0 < float(company) < 1e-4 < float(half) < float(spread)
        assert flips.endswith(f"of {len(accelerator.SLATES)}")


@pytest.mark.parametrize("wrong", ["there", "in company"])
def test_numbers_that_differ_are_marked(wrong: str, capsys: Any, monkeypatch: Any) -> None:
    reads = {"n": 0}
    many = len(accelerator.SLATES)

    def off(scorer: Any, slates: Any) -> list[list[float]]:
        found = numbers(scorer, slates)
        if len(slates) == many:
            reads["n"] += 1
            if reads["n"] == (2 if wrong == "there" else 3):
                found[0][0] += 2e-4
        return found

    monkeypatch.setattr(accelerator, "SCORERS", {"likelihood": FEW["likelihood"]})
    monkeypatch.setattr(accelerator, "numbers", off)
    assert main(["--device", "cpu", "--only", "scores"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].endswith("|  <- differs")


def test_draws_that_do_not_come_again_are_marked(tmp_path: Path, monkeypatch: Any) -> None:
    calls = iter(range(10**6))

    def unlike(model: Any, ids: Any, n: int, *given: Any, **told: Any) -> list[Any]:
        return [Namespace(ids=[next(calls)]) for _ in range(n)]

    good = dict(accelerator.replies(tmp_path, "cpu", Namespace()))
    assert all(good.values())
    assert {row[:3] for row in good if row[0] == "float32"} == {
        ("float32", "128 of 128", "128 of 128")
    }
    monkeypatch.setattr(accelerator, "sample", unlike)
    _, *rows = accelerator.replies(tmp_path, "cpu", Namespace())
    assert [holds for _, holds in rows] == [False, False]


def test_a_device_that_is_not_there_is_no_traceback(capsys: Any, monkeypatch: Any) -> None:
    def none(device: str | None) -> str:
        raise ModelError(f"--device {device}: not available here")

    monkeypatch.setattr(accelerator, "choose_device", none)
    assert main(["--device", "xpu"]) == 2
    assert capsys.readouterr().err == "--device xpu: not available here\n"
