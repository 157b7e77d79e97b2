"""The room of docs/extending.md asks a model in this process and an endpoint by the same lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import palate
from endpoints import Loopback

PAGE = Path(__file__).resolve().parents[1] / "docs" / "extending.md"


@pytest.fixture
def print_replies() -> Callable[[str, palate.Session], None]:
    text = PAGE.read_text(encoding="utf-8").split("## A room that asks a language model")[1]
    (block,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(block.splitlines()) <= 12
    names: dict[str, Any] = {"palate": palate}
    exec(block, names)
    room: Callable[[str, palate.Session], None] = names["print_replies"]
    return room


@pytest.fixture
def small(tiny: Any) -> str:
    return str(tiny.model())


def test_the_room_prints_what_a_local_model_replies(print_replies, small, capsys) -> None:  # type: ignore[no-untyped-def]
    with palate.Session() as session:
        print_replies(small, session)
        assert session.loaded == 1
    printed = capsys.readouterr().out
    for row in palate.load_benchmark("tasting", limit=2).rows:
        assert printed.count(f"{row.text}\n  ") == 1
    assert "too long" not in printed


def test_the_room_prints_what_an_endpoint_replies(print_replies, tmp_path: Path, capsys) -> None:  # type: ignore[no-untyped-def]
    def answer(path: str, body: Any) -> tuple[int, Any]:
        reply = f"{len(body['messages'][0]['content'])} characters"
        choice = {"message": {"content": reply}, "finish_reason": "stop"}
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 150, "completion_tokens": 2}}

    rows = palate.load_benchmark("tasting", limit=2).rows
    with Loopback(answer) as there, palate.Session(cache=tmp_path) as session:
        for _ in range(2):
            print_replies(f"api:m?base_url={there.url}/v1", session)
            printed = capsys.readouterr().out
            for row in rows:
                assert f"{row.text}\n  {len(row.text)} characters\n" in printed
        assert len(there.seen) == len({row.text for row in rows})


@pytest.fixture
def use() -> dict[str, Any]:
    text = PAGE.read_text(encoding="utf-8").split("## A use")[1]
    block = re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]
    written = block[block.index("class SureCell") : block.index("result = sure(")]
    assert len([line for line in written.splitlines() if line]) <= 40
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(block, PAGE.name, "exec", dont_inherit=True), names)
    return names


def test_a_use_of_forty_lines_is_right_kept_read_back_and_predicted(use, tmp_path) -> None:  # type: ignore[no-untyped-def]
    scorers = ["longest", "shortest", "random"]
    result = use["sure"]("tasting", scorers, ["none"], root=tmp_path)
    runs = palate.runs.load_all(tmp_path, "run")
    longest = next(run for run in runs if run.summary.scorer == "longest")
    margins = sorted(abs(row.margin) for row in longest.verdicts.rows)
    half = (margins[len(margins) // 2 - 1] + margins[len(margins) // 2]) / 2
    surer = [row for row in longest.verdicts.rows if abs(row.margin) >= half]
    credit = {"chosen": 1, "tie": 0.5, "rejected": 0}
    by_hand = sum(credit[row.outcome.value] for row in surer) / len(surer)
    (cell,) = (cell for cell in result.summary.cells if cell.scorer == "longest")
    assert cell.accuracy.value == pytest.approx(by_hand)
    assert "the surer half" in str(result)
    assert use["Sure"].read(result.folder) == result
    assert len(list(result.records())) == len(scorers) * len(result.rows)
    found = palate.validity([*runs, result], root=None).summary
    (of,) = {coefficient.downstream for coefficient in found.coefficients}
    assert (of.quality, of.rated) == ("accuracy", "surer half")
