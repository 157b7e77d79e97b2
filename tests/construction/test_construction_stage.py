"""What a stage reads, it keeps or drops with a reason: all of it is counted, in order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.construction import Dropped, Stage

REASONS = (None, "leak", "quote", "format")
ROWS = st.lists(st.tuples(st.integers(), st.sampled_from(REASONS)), max_size=30)
Row = tuple[int, str | None]


def by_chunks(size: int) -> Stage[Row, int]:
    """Return a stage that computes so many rows together, and gives on something else."""

    def work(rows: Iterator[Row]) -> Iterator[int | Dropped]:
        while chunk := list(islice(rows, size)):
            yield from (number if reason is None else Dropped(reason) for number, reason in chunk)

    return Stage("chunks", "rows", work)


@given(ROWS, st.integers(1, 9))
def test_what_is_kept_and_dropped_is_what_was_read(rows: list[Row], size: int) -> None:
    stage = by_chunks(size)
    outcomes = list(stage.outcomes(iter(rows)))
    assert [row for row, _ in outcomes] == rows
    for (number, reason), outcome in outcomes:
        assert outcome == (number if reason is None else Dropped(reason))
    counts = stage.counts
    assert counts.n_read == len(rows) == counts.n_kept + sum(counts.dropped.values())
    assert {*counts.dropped} == {reason for _, reason in rows if reason}


@given(ROWS, ROWS)
def test_stages_in_a_row_hand_on_what_they_keep(first: list[Row], more: list[Row]) -> None:
    for_words = Stage.by_reason("words", "rows", lambda row: row[1] if row[1] == "leak" else None)
    for_rest = Stage.by_reason("rest", "rows", lambda row: row[1])
    for rows in (first, more):  # the counts are of all calls
        assert list(for_rest.run(for_words.run(rows))) == [row for row in rows if row[1] is None]
    words, rest = for_words.counts, for_rest.counts
    assert (words.n_read, words.n_kept) == (len(first) + len(more), rest.n_read)
    assert rest.n_kept + sum([*words.dropped.values(), *rest.dropped.values()]) == words.n_read


def test_stages_stream() -> None:
    seen: list[int] = []
    stage = Stage.by_reason("odd", "numbers", lambda number: "odd" if number % 2 else None)
    for number in stage.run(seen.append(k) or k for k in range(9)):  # type: ignore[func-returns-value]
        assert seen[-1] == number


def test_the_reasons_that_a_stage_names_come_first_in_their_order() -> None:
    stage = Stage.by_reason("all", "rows", str, reasons=("c", "b", "never"))
    assert not list(stage.run("abcab"))
    assert list(stage.counts.dropped.items()) == [("c", 1), ("b", 2), ("a", 2)]


@pytest.mark.parametrize("outcomes", [1, 3])
def test_a_stage_gives_every_row_one_outcome(outcomes: int) -> None:
    def work(rows: Iterator[int]) -> Iterator[int]:
        list(rows)
        return iter(range(outcomes))

    with pytest.raises(AssertionError, match="outcome"):
        list(Stage("broken", "rows", work).run([1, 2]))
