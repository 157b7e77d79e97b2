"""Rows of some days: windows fit together, couples stay whole, strangers stay the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palate.benchmarks import Dataset, as_mirrored, load_benchmark, mirrors, within
from palate.contexts import build_context
from palate.errors import BenchmarkError, UsageError
from palate.evaluation import make_rows
from palate.records import Post, PreferencePair, Settings
from palate.session import Session

START = datetime(2026, 1, 1, tzinfo=UTC)
FORMS = ("%Y-%m-%dT%H:%M:%SZ", "%d %b %Y %H:%M:%S +0000", "%Y/%m/%d %H:%M")


def day(hours: int, form: str = FORMS[0]) -> str:
    return (START + timedelta(hours=hours)).strftime(form)


def row(name: str, date: str | None, **fields: Any) -> PreferencePair:
    base = {"user_id": f"u{name}", "text": f"Which {name}?", "chosen": "Yes.", "rejected": "No."}
    return PreferencePair(**{"id": name, "date": date, **base, **fields})


def couple(name: str, first: str, second: str) -> list[PreferencePair]:
    text = f"Which {name}?"
    return [
        row(f"{name}a", first, text=text, mirror_of=f"{name}b"),
        row(f"{name}b", second, text=text, mirror_of=f"{name}a", chosen="No.", rejected="Yes."),
    ]


def ids(dataset: Dataset) -> list[str]:
    return [each.id for each in dataset.rows]


def held(dataset: Dataset, since: int, until: int) -> list[str]:
    """Return the ids of the rows in a window; none where it is empty."""
    try:
        return ids(within(dataset, day(since), day(until)))
    except BenchmarkError:
        return []


hours = st.integers(0, 200)
dates = st.builds(day, hours, st.sampled_from(FORMS))
ends = st.lists(st.integers(0, 210), min_size=3, max_size=3, unique=True).map(sorted)


@given(st.lists(dates, min_size=1, max_size=12), ends)
def test_two_windows_that_meet_are_one(days: list[str], cuts: list[int]) -> None:
    dataset = Dataset("m", tuple(row(str(k), date) for k, date in enumerate(days)))
    a, b, c = cuts
    both = held(dataset, a, b) + held(dataset, b, c)
    assert sorted(both, key=ids(dataset).index) == held(dataset, a, c)
    assert len(both) == sum(
        START + timedelta(hours=a) <= each.instant.start < START + timedelta(hours=c)
        for each in dataset.rows
        if each.instant
    )


@given(st.lists(st.tuples(dates, dates), min_size=1, max_size=8), ends)
def test_couples_stay_whole(days: list[tuple[str, str]], cuts: list[int]) -> None:
    rows = [each for k, two in enumerate(days) for each in couple(str(k), *two)]
    dataset = as_mirrored(Dataset("m", tuple(rows)))
    since, until = day(cuts[0]), day(cuts[2])
    singly = held(Dataset("m", tuple(rows)), cuts[0], cuts[2])
    whole = [name for name in singly if name[:-1] + "ba"[name[-1] == "b"] in singly]
    assert held(dataset, cuts[0], cuts[2]) == whole
    if whole:
        some = within(dataset, since, until)
        assert some.mirrored
        assert some.halves_left_out == len(singly) - len(whole)


def test_an_end_is_a_day_or_a_moment_and_the_first_alone_is_read() -> None:
    days = ("2026-03", "2026-03-01T01:00+02:00", "1772323200", "2026-03-02", "2026-03-02T00:00:01")
    dataset = Dataset("m", tuple(row(str(k), date) for k, date in enumerate(days)))
    assert ids(within(dataset, "2026-03-01", "2026-03-02")) == ["0", "2"]
    assert ids(within(dataset, "2026-02-28T23:00Z", "2026-03-02T00:00:01Z")) == list("0123")
    assert ids(within(dataset, until="2026-03-01")) == ["1"]
    assert within(dataset) is dataset
    same = within(dataset, "2026-03-01T02:00+02:00").window
    assert same == within(dataset, "1 March 2026").window == {"since": "2026-03-01"}


PAST = [row(f"p{k}", day(24 * k), user_id="ann", split="adapt", text=f"Past {k}?")
        for k in range(4)]  # fmt: skip


def test_past_choices_are_those_before_the_end_whatever_the_beginning() -> None:
    rows = [*PAST, *(row(f"t{k}", day(24 * k), user_id="ann", split="test") for k in range(4))]
    dataset = Dataset("m", tuple(rows)).select()
    some = within(dataset, day(24), day(72))
    assert ids(some) == ["t1", "t2"]
    assert [each.id for each in some.history] == ["p0", "p1", "p2"]
    assert within(dataset, day(24)).history == dataset.history


def test_undecided_rated_rows_are_of_the_same_days() -> None:
    tie = {"tie": True, "gold": {"ratings": (3.0, 3.0)}}
    rows = (row("a", day(0)), row("b", day(50), **tie), row("c", day(60)), row("d", day(99), **tie))
    some = within(Dataset("m", rows).select(), until=day(70))
    assert ([each.id for each in some.undecided], ids(some)) == (["b"], ["a", "c"])


def test_a_window_changes_no_stranger() -> None:
    rows = [
        each.model_copy(update={"profile": (Post(id="p", text=f"I write of {each.id}"),)})
        for k in range(3)
        for each in couple(str(k), day(24 * k), day(24 * k + 1))
    ]
    whole = mirrors(Dataset("m", tuple(rows)).select())
    context = build_context("stranger:1", Session(), Settings())

    def shown(dataset: Dataset) -> dict[str, str]:
        made = make_rows(dataset, context, seed=0)
        return {made.id(k): made.slate(k).shown[0].text for k in range(len(made))}

    some = within(whole, day(24))
    assert len(some.rows) == 4
    assert shown(some) == {name: text for name, text in shown(whole).items() if name[0] != "0"}


@pytest.mark.parametrize(
    ("days", "since", "until", "says"),
    [
        ((None, None), "2026", None, r"m: --since 2026-01-01: 2 of 2 rows have no date.*'0'"),
        ((day(1), None), "2026", None, r"m: --since 2026-01-01: 1 of 2 rows have no date.*'1'"),
        ((day(1), day(30)), None, "2025", r"no row is within \(rows are of 2026-01-01 to 2026-01-02"),
        ((day(1), day(30)), "2027-01-01", "2026-01-01", "--since 2027-01-01 --until 2026-01-01: the"),
        ((day(1), day(30)), "2026-01-01", "2026-01-01T00:00Z", "--since 2026-01-01 --until 2026"),
        ((day(1), day(30)), "3/4/2026", None, "--since 3/4/2026: no day that can be read; write it"),
    ],
)  # fmt: skip
def test_what_has_no_rows_is_refused(
    days: tuple[str | None, ...], since: str | None, until: str | None, says: str
) -> None:
    dataset = Dataset("m", tuple(row(str(k), date) for k, date in enumerate(days)))
    with pytest.raises((BenchmarkError, UsageError), match=says):
        within(dataset, since, until)


def test_couples_of_two_days_leave_nothing() -> None:
    dataset = as_mirrored(Dataset("m", tuple(couple("1", day(1), day(30)))))
    with pytest.raises(BenchmarkError, match="no mirrored couple has both rows within"):
        within(dataset, until=day(24))


def test_where_no_date_was_read_there_is_no_window() -> None:
    dataset = Dataset("m", (row("a", None),), order_as_in_file=True)
    with pytest.raises(UsageError, match="no date is read with --order-as-in-file; leave one"):
        within(dataset, "2026")


def test_a_past_choice_without_a_date_counts_where_the_end_is_given() -> None:
    rows = (row("t", day(1), split="test"), row("p", None, split="adapt", text="Past?"))
    dataset = Dataset("m", rows).select()
    assert within(dataset, "2026").history
    with pytest.raises(BenchmarkError, match="1 of 2 rows have no date, the first is 'p'"):
        within(dataset, until="2027")


def test_a_benchmark_is_loaded_by_days() -> None:
    with pytest.raises(BenchmarkError, match="tasting: --since 2026-01-01: 96 of 96 rows have no"):
        load_benchmark("tasting", since="2026")
    with pytest.raises(UsageError, match="--until soon: no day"):
        load_benchmark("no/such/file.jsonl", until="soon")
