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
        return 200, {"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}

    rows = palate.load_benchmark("tasting", limit=2).rows
    with Loopback(answer) as there, palate.Session(cache=tmp_path) as session:
        for _ in range(2):
            print_replies(f"api:m?base_url={there.url}/v1", session)
            printed = capsys.readouterr().out
            for row in rows:
                assert f"{row.text}\n  {len(row.text)} characters\n" in printed
        assert len(there.seen) == len({row.text for row in rows})
