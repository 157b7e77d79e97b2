"""A run killed at any byte of its journal goes on to the same bytes."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_evaluation_resume import SCORERS, calls, run


@pytest.fixture(scope="module", params=SCORERS)
def whole(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path, bytes, bytes]]:
    with tempfile.TemporaryDirectory() as root:
        expected = run(Path(root), SCORERS[request.param]())
        journal = next(Path(root).rglob("journal.jsonl"))
        yield request.param, journal, journal.read_bytes(), expected


@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_killed_at_any_byte_and_resumed_gives_the_same_bytes(whole, data):
    kind, journal, content, expected = whole
    # Half of the cuts are where a line ends, or a byte beside: there a batch is whole, or is not.
    ends = [k + step for k, byte in enumerate(content) if byte == ord("\n") for step in (0, 1, 2)]
    cut = data.draw(
        st.integers(0, len(content)) | st.sampled_from([k for k in ends if k <= len(content)])
    )
    for left in ("summary.json", "rows.jsonl"):
        (journal.parent / left).unlink(missing_ok=True)
    journal.write_bytes(content[:cut])
    root = journal.parent.parent.parent.parent
    scorer = SCORERS[kind]()
    assert run(root, scorer) == expected
    assert journal.read_bytes() == content
    end = b'"last":true}\n'
    asked = calls(scorer)
    if kind == "exact judge":
        assert asked == content.count(end) - content[:cut].count(end), "paid for once"
    if cut == len(content):
        assert asked == 0
