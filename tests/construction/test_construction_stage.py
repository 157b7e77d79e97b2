"""What a stage reads, it keeps or drops with a reason: all of it is counted, in order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palate.construction import Dropped, Stage

REASONS = (None, "leak", "quote", "format")
ROWS = st.lists(st.tuples(st.integers(), st.sampled_from(REASONS)), max_size=30)
Row = tuple[int, str | None]


def number_of(row: Row) -> int | Dropped:
    """Give on something else, or drop."""
    number, reason = row
    return number if reason is None else Dropped(reason)


@given(ROWS)
def test_what_is_kept_and_dropped_is_what_was_read(rows: list[Row]) -> None:
    stage = Stage("numbers", "rows")
    assert list(stage.run(iter(rows), number_of)) == [n for n, reason in rows if reason is None]
    counts = stage.counts
    assert counts.n_read == len(rows) == counts.n_kept + sum(counts.dropped.values())
    assert {*counts.dropped} == {reason for _, reason in rows if reason}


@given(ROWS, ROWS)
def test_stages_in_a_row_hand_on_what_they_keep(first: list[Row], more: list[Row]) -> None:
    for_words, for_rest = Stage("words", "rows"), Stage("rest", "rows")
    for rows in (first, more):  # the counts are of all calls
        left = for_words.leave_out(rows, lambda row: row[1] if row[1] == "leak" else None)
        assert list(for_rest.leave_out(left, lambda row: row[1])) == [
            row for row in rows if row[1] is None
        ]
    words, rest = for_words.counts, for_rest.counts
    assert (words.n_read, words.n_kept) == (len(first) + len(more), rest.n_read)
    assert rest.n_kept + sum([*words.dropped.values(), *rest.dropped.values()]) == words.n_read


def test_stages_stream() -> None:
    seen: list[int] = []
    stage = Stage("odd", "numbers")
    numbers = (seen.append(k) or k for k in range(9))  # type: ignore[func-returns-value]
    for number in stage.leave_out(numbers, lambda number: "odd" if number % 2 else None):
        assert seen[-1] == number


def test_the_reasons_that_a_stage_names_come_first_in_their_order() -> None:
    stage = Stage("all", "rows", reasons=("c", "b", "never"))
    assert not list(stage.leave_out("abcab", str))
    assert list(stage.counts.dropped.items()) == [("c", 1), ("b", 2), ("a", 2)]
