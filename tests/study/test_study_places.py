"""Who gets which place: arrivals, holds, abandoned places, closing and deleting."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from palate.errors import UsageError
from palate.records import user_key
from palate.study import ListEntry, read_study
from palate.study.database import GivenAnswer
from palate.study.store import StudyStore, close_raters, forget_user
from study.small_studies import RATINGS, asked_at, seated, small_study, state_of

FIRST = GivenAnswer(choice="first", ratings=RATINGS)
HOLD = 3600


class Clock:
    """A clock that is set by hand."""

    now = 1e9

    def __call__(self) -> float:
        return self.now


def rater_of(store: StudyStore, arrival: str) -> str | None:
    token = store.arrive(arrival)
    state = None if token is None else store.rater(token)
    if state is None:
        return None
    store.consent(state.rater)
    return state.rater


def list_of(store: StudyStore, rater: str) -> list[ListEntry]:
    entries = []
    while (asked := store.entry(rater, len(entries))) is not None:
        entries.append(asked.entry)
    return entries


def test_an_abandoned_places_open_items_go_on(tmp_path: Path) -> None:
    study, clock = small_study(tmp_path / "study", raters=1), Clock()
    with closing(StudyStore(study, clock=clock)) as store:
        assert rater_of(store, "a") == "r01"
        store.save("r01", 0, FIRST)
        clock.now += HOLD
        assert rater_of(store, "b") is None  # seen just within the hold
        clock.now += 1
        assert rater_of(store, "b") == "r02"
        assert list_of(store, "r02") == list(study.plan.lists[0][1:])
        assert store.arrive("a") is None
        with pytest.raises(UsageError, match="r01: takes no answers"):
            store.save("r01", 1, FIRST)
        for position in range(5):
            store.save("r02", position, FIRST)
        clock.now += 100 * HOLD
        assert rater_of(store, "c") is None  # all is answered
        assert [row.rater for row in store.answers()] == ["r01", *["r02"] * 5]


def test_a_personal_link_is_given_away_only_when_it_is_closed(tmp_path: Path) -> None:
    study, clock = small_study(tmp_path / "study", raters=2), Clock()
    with closing(StudyStore(study, clock=clock)) as store:
        store.issue_links()
        clock.now += 100 * HOLD
        assert rater_of(store, "a") is None
        assert close_raters(store.database, "r02") == "r02"
        assert rater_of(store, "a") == "r03"
        assert list_of(store, "r03") == list(study.plan.lists[1])


def test_who_deletes_leaves_an_open_place_and_a_name_for_nobody(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", raters=2)
    with closing(StudyStore(study)) as store:
        assert [rater_of(store, name) for name in "ab"] == ["r01", "r02"]
        store.save("r01", 0, FIRST)
        store.delete("r01")
        assert store.answers() == []
        assert rater_of(store, "c") == "r03"
        assert list_of(store, "r03") == list(study.plan.lists[0])
        store.delete("r01")  # once more does no harm
        close_raters(store.database, None)
        assert rater_of(store, "d") is None
        assert store.arrive("c") is None


def test_arrivals_at_once_get_places_of_their_own(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", raters=12)
    stores = [StudyStore(study) for _ in range(2)]  # as two processes would
    with ThreadPoolExecutor(8) as pool:
        tokens = list(pool.map(lambda k: stores[k % 2].arrive(str(k // 2)), range(32)))
    for store in stores:
        store.close()
    assert all(tokens[k] == tokens[k + 1] for k in range(0, 32, 2))
    counts = Counter(tokens[::2])
    assert counts.pop(None) == 4
    assert set(counts.values()) == {1}
    assert len(counts) == 12


def test_a_forgotten_item_is_passed_over(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", users=(user_key("ana"),))
    with closing(StudyStore(study)) as store:
        store.save(seated(store, "a"), 0, FIRST)
        before, late = store.answers(), seated(store, "b")
        assert forget_user(store.database, study.folder, "nobody") == 0
        assert forget_user(store.database, study.folder, "ana") == 2  # an item and its gold
        assert asked_at(store, late, 0).item is None
        with pytest.raises(UsageError, match="is not to be answered"):
            store.save(late, 0, FIRST)
        store.save(late, 1, FIRST)
        assert len(list_of(store, late)) == 6
        assert rater_of(store, "c") == "r03"
        assert len(list_of(store, "r03")) == 5
        (stays, _) = store.answers()
    assert (stays.choice, stays.responses) == (before[0].choice, before[0].responses)
    assert stays.rows == ()
    assert study.items.keys() - read_study(study.folder).items.keys() == {stays.item}


def test_a_collection_assigns_when_answers_are_saved(tmp_path: Path) -> None:
    study = small_study(tmp_path / "study", mode="collect", per_rater=3, checks=0, shown=True)
    given = GivenAnswer(choice="second")

    def choose(rater: str, session: Sequence[tuple[ListEntry, Any]]) -> ListEntry | None:
        met = [entry.item for entry, _ in session]
        listed = [entry for entry in study.plan.lists[0] if entry.item not in met]
        return listed[0] if rater == "r01" or len(session) < 2 else None

    with closing(StudyStore(study, choose=choose)) as store:
        assert [rater_of(store, name) for name in "abc"] == ["r01", "r02", "r03"]
        db = store.database.connection
        for position in range(3):
            n = db.total_changes
            asked_at(store, "r01", position)
            assert store.entry("r01", position + 1) is None
            assert db.total_changes == n  # a page that is opened changes nothing
            store.save("r01", position, given)
        assert store.entry("r01", 3) is None
        state = state_of(store, "a")
        assert (state.answered, state.total, state.finished) == (3, 3, True)
        for position in range(2):
            store.save("r02", position, given)
        state = state_of(store, "b")
        assert (state.total, state.finished) == (2, True)
        close_raters(store.database, "r03")
        assert rater_of(store, "d") == "r04"
        assert len(list_of(store, "r04")) == 1


def test_a_collection_looks_without_writing_where_what_waited_was_forgotten(tmp_path: Path) -> None:
    users = [user_key(name) for name in ("ana", "ben", "eve", "joe")]
    study = small_study(
        tmp_path / "study", mode="collect", per_rater=4, checks=0, shown=True, users=tuple(users)
    )
    given, listed = GivenAnswer(choice="second"), study.plan.lists[0]

    def choose(rater: str, session: Sequence[tuple[ListEntry, Any]]) -> ListEntry | None:
        met = [entry.item for entry, _ in session]
        return next((entry for entry in listed if entry.item not in met), None)

    with closing(StudyStore(study, choose=choose)) as store:
        rater = seated(store, "a")
        store.save(rater, 0, given)
        for name in ("ben", "eve"):  # what waits, and what the chooser would take next
            forget_user(store.database, study.folder, name)
        changes = store.database.connection.total_changes
        state = state_of(store, "a")
        assert (state.finished, state.next_position) == (False, 2)
        assert asked_at(store, rater, 2).entry == listed[3]
        assert store.database.connection.total_changes == changes
        store.save(rater, 2, given)
        store.save(rater, 2, given)
        assert [row.item for row in store.answers()] == [listed[0].item, listed[3].item]
        state = state_of(store, "a")
        assert (state.answered, state.total, state.finished) == (2, 2, True)


def test_a_collection_ends_where_all_that_is_left_was_forgotten(tmp_path: Path) -> None:
    study = small_study(
        tmp_path / "study", mode="collect", per_rater=2, checks=0, items=2, shown=True,
        users=(user_key("ana"), user_key("ben")),
    )  # fmt: skip
    entries = study.plan.lists[0]
    with closing(
        StudyStore(study, choose=lambda _, session: dict(enumerate(entries)).get(len(session)))
    ) as store:
        rater = seated(store, "a")
        store.save(rater, 0, GivenAnswer(choice="second"))
        forget_user(store.database, study.folder, "ben")
        state = state_of(store, "a")
        assert (state.total, state.finished) == (1, True)
        with pytest.raises(UsageError, match="not to be answered"):
            store.save(rater, 2, GivenAnswer(choice="second"))


class Places(RuleBasedStateMachine):
    """People arrive, answer, pause, are closed and delete, in any order."""

    @initialize(raters=st.integers(1, 3), items=st.integers(1, 4))
    def start(self, raters: int, items: int) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.study = small_study(
            Path(self.folder.name) / "study", raters=raters, items=items, checks=1
        )
        self.clock = Clock()
        self.store = StudyStore(self.study, clock=self.clock)
        self.people: dict[str, str] = {}
        self.answered: set[tuple[str, str]] = set()
        self.deleted: set[str] = set()
        self.arrivals = 0

    @rule(back=st.booleans(), who=st.integers(0, 5))
    def arrive(self, back: bool, who: int) -> None:
        self.arrivals += not back
        person = str(who % max(1, self.arrivals) if back else self.arrivals)
        rater = rater_of(self.store, person)
        if rater is not None:
            known = self.people.setdefault(person, rater)
            assert known == rater or known in self.deleted
            self.people[person] = rater

    @rule(minutes=st.sampled_from([1, 30, 61]))
    def wait(self, minutes: int) -> None:
        self.clock.now += 60 * minutes

    @precondition(lambda self: self.people)
    @rule(data=st.data())
    def answer(self, data: st.DataObject) -> None:
        person = data.draw(st.sampled_from(sorted(self.people)))
        token, rater = self.store.arrive(person), self.people[person]
        state = None if token is None or rater in self.deleted else self.store.rater(token)
        if state is None:
            with pytest.raises(UsageError):
                self.store.save(rater, 0, FIRST)
        elif not state.finished:
            asked = asked_at(self.store, rater, state.next_position)
            self.store.save(rater, state.next_position, FIRST)
            self.answered.add((rater, asked.entry.item))

    @precondition(lambda self: self.people)
    @rule(data=st.data(), deletes=st.booleans())
    def end(self, data: st.DataObject, deletes: bool) -> None:
        rater = self.people[data.draw(st.sampled_from(sorted(self.people)))]
        if deletes:
            self.store.delete(rater)
            self.deleted.add(rater)
            self.answered = {pair for pair in self.answered if pair[0] != rater}
        else:
            close_raters(self.store.database, rater)

    @invariant()
    def every_acknowledged_answer_is_there_once(self) -> None:
        rows = [(row.rater, row.item) for row in self.store.answers()]
        assert sorted(rows) == sorted(self.answered)

    @invariant()
    def nobody_meets_a_pair_twice_and_no_place_is_answered_twice(self) -> None:
        listed = [
            [entry.item for entry in list_of(self.store, rater)] for rater in self.people.values()
        ]
        assert all(len(items) == len(set(items)) for items in listed)
        places = dict(self.store.database.connection.execute("SELECT rater, place FROM raters"))
        per_place = Counter((places[rater], item) for rater, item in self.answered)
        assert set(per_place.values()) <= {1}

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            self.folder.cleanup()


TestPlaces = Places.TestCase
TestPlaces.settings = settings(max_examples=10, stateful_step_count=20, deadline=None)
