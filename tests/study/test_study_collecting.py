"""Collections: which questions are for testing, in which order, and who is asked what."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from collections_of_choices import collection, given, questions, sit_through
from hypothesis import given as cases
from hypothesis import settings
from hypothesis import strategies as st

from palate.benchmarks import Dataset
from palate.data import choice_key, split_of
from palate.errors import UsageError
from palate.session import Session
from palate.study import ListEntry, Study
from palate.study.collecting import BETWEEN, MOST_PAIRS, choose_next, positions


def order_of(study: Study) -> list[str]:
    return [entry.item for entry in study.plan.lists[0]]


def longest(item) -> str:
    return "first" if len(item.answers[0]) > len(item.answers[1]) else "second"


def test_questions_for_testing_are_the_hash_s_and_come_with_categories_in_turn():
    study = collection(questions(120, topics=3), seed=7)
    tested = order_of(study)
    for item in study.items.values():
        key = choice_key(item.question[-1].content)
        expected = split_of(key, test_share=0.3, seed=7) == "test"
        assert (item.id in tested) == expected
        assert item.asks == "prefers" and item.kind == "pair" and len(item.users) == 1
    counts = Counter(study.items[item].category for item in tested)
    in_turn = [study.items[item].category for item in tested[: 3 * min(counts.values())]]
    assert all(len(set(in_turn[k : k + 3])) == 3 for k in range(0, len(in_turn), 3))
    assert 0.2 < len(tested) / len(study.items) < 0.4
    assert order_of(collection(questions(120), seed=8)) != tested


def test_the_order_does_not_depend_on_the_order_of_rows_or_responses():
    dataset = questions(60)
    rows = [row.to_row() for row in reversed(dataset.rows)]
    for row in rows:
        row["responses"] = row["responses"][::-1]
    study, other = (
        collection(it, per_rater=10, again=0) for it in (dataset, Dataset.from_rows("other", rows))
    )
    assert study.plan.lists == other.plan.lists
    assert study.plan.items == other.plan.items


def test_of_several_responses_all_pairs_are_items_and_no_question_comes_twice_at_once():
    study = collection(questions(30, responses=4), per_rater=20, again=0)
    assert len(study.items) == 30 * 6
    tested = [study.items[item].question for item in order_of(study)]
    n = len(set(tested))
    assert len(tested) == 6 * n and len(set(tested[:n])) == n
    many = collection(questions(30, responses=9), per_rater=20, again=0)
    assert len(many.items) == 30 * MOST_PAIRS
    by_question = Counter(item.question for item in many.items.values())
    assert set(by_question.values()) == {MOST_PAIRS}


def test_rows_with_the_same_question_are_one_question():
    rows = [
        {"id": "a", "user_id": "ann", "question": "Tea?", "responses": ["Green.", "Black."]},
        {"id": "b", "user_id": "bob", "question": " Tea?\n", "responses": ["Green. ", "White."]},
        {"id": "c", "question": "Tea?", "turns": [{"role": "assistant", "content": "Hi."}],
         "responses": ["Green.", "Black."]},
    ]  # fmt: skip
    study = collection(Dataset.from_rows("teas", rows), per_rater=3, again=0, test_share=0)
    by_question: dict[object, set[frozenset[str]]] = {}
    for item in study.items.values():
        by_question.setdefault(item.question, set()).add(frozenset(item.answers))
    assert sorted(map(len, by_question.values())) == [1, 3]
    pairs = max(by_question.values(), key=len)
    assert pairs == set(map(frozenset, combinations(("Green.", "Black.", "White."), 2)))
    assert {len(item.users) for item in study.items.values()} == {1, 2}


@cases(per_rater=st.integers(1, 200), test_share=st.floats(0, 1), again=st.floats(0, 1))
def test_positions_have_the_shares_and_leave_room_between(per_rater, test_share, again):
    try:
        kinds = positions(per_rater, test_share, again)
    except UsageError:
        assert again > 0.2 * (1 - BETWEEN / per_rater) or test_share + again > 0.95
        return
    assert len(kinds) == per_rater
    for kind, share in (("test", test_share), ("again", again)):
        assert abs(kinds.count(kind) - share * per_rater) <= 0.5
    for place, kind in enumerate(kinds):
        if kind == "again":
            long_ago = kinds[: place - BETWEEN]
            new = sum(it != "again" for it in long_ago)
            assert new > kinds[:place].count("again"), "each repeat has a pair of its own"


@settings(max_examples=12, deadline=None)
@cases(
    draw=st.integers(0, 10**6),
    seed=st.integers(0, 99),
    n=st.integers(1, 3),
    test_share=st.sampled_from([0, 0.3, 0.5]),
    again=st.sampled_from([0, 0.1, 0.25]),
)
def test_laws_of_what_a_rater_is_asked(draw, seed, n, test_share, again):
    study = collection(
        questions((160, 60, 60)[n - 1], responses=n + 1),
        seed=seed,
        test_share=test_share,
        again=again,
        per_rater=44,
    )
    chooser = choose_next(study, Session())
    stream, choices = np.random.default_rng(draw), ["first", "second", "same"]
    asked = sit_through(chooser, "r01", study, lambda _: str(stream.choice(choices)))
    assert len(asked) == 44
    tested = order_of(study)
    new = [entry for entry, _ in asked if not entry.again]
    assert len({entry.item for entry in new}) == len(new), "no pair is met twice"
    met = [entry.item for entry in new if entry.item in tested]
    assert met == tested[: len(met)], "test pairs come in the plan's order"
    assert abs(len(met) - test_share * 44) <= 1
    assert abs(sum(entry.again for entry, _ in asked) - again * 44) <= 1
    swapped = sum(entry.swapped for entry in new)
    assert abs(2 * swapped - len(new)) <= 1, "sides are balanced"
    repeated = set()
    for place, (entry, _) in enumerate(asked):
        if entry.again:
            before = next(k for k, (it, _) in enumerate(asked) if it.item == entry.item)
            assert place - before - 1 >= BETWEEN
            assert asked[before][0].swapped != entry.swapped
            assert entry.item not in repeated
            repeated.add(entry.item)
    assert asked == sit_again(chooser, asked), "it is a function of what was answered"


def sit_again(chooser, asked):
    return [(chooser("r01", asked[:k]), answered) for k, (_, answered) in enumerate(asked)]


def test_what_was_skipped_is_not_asked_again_and_a_new_pair_takes_its_place():
    study = collection(per_rater=24, again=0.09)
    chooser = choose_next(study, Session())
    asked: list = []
    while (entry := chooser("r01", asked)) is not None:
        asked.append((entry, given("skip" if len(asked) in (0, 1) else "first")))
    again = [k for k, (entry, _) in enumerate(asked) if entry.again]
    assert again == [23] and asked[23][0].item == asked[2][0].item
    unanswered = [(entry, None) for entry, _ in asked[:23]]
    assert chooser("r01", unanswered).again is False


def test_raters_get_the_same_test_pairs_and_other_ones_of_their_own():
    study = collection(questions(200), per_rater=40)
    chooser = choose_next(study, Session())
    tested = set(order_of(study))
    sat = [sit_through(chooser, rater, study, longest) for rater in ("r01", "r02")]
    met = [[e.item for e, _ in asked if not e.again] for asked in sat]
    first, second = ([it for it in items if it in tested] for items in met)
    assert first == second
    assert set(met[0]) - tested != set(met[1]) - tested
    sides = [[e.swapped for e, _ in asked] for asked in sat]
    assert sides[0] != sides[1]


def test_forgotten_items_are_passed_over():
    study = collection(questions(60), per_rater=20, again=0, test_share=0.5)
    gone = {order_of(study)[0], *sorted(study.items.keys() - set(order_of(study)))[:5]}
    less = Study(study.folder, study.plan,
                 {k: v for k, v in study.items.items() if k not in gone}, ())  # fmt: skip
    asked = sit_through(choose_next(less, Session()), "r01", less, longest)
    assert len(asked) == 20
    assert not gone & {entry.item for entry, _ in asked}
    nothing = Study(study.folder, study.plan, {}, ())
    assert choose_next(nothing, Session())("r01", []) is None
    entry = ListEntry(item=order_of(study)[0], swapped=False)
    few = Study(study.folder, study.plan, {entry.item: study.items[entry.item]}, ())
    assert choose_next(few, Session())("r01", []).item == entry.item, "what is left is asked"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"per_rater": 100}, r"questions: \d+ pairs of split test for 30 that each .* lower"),
        ({"again": 0.4}, "--again 0.4: no room"),
        ({"per_rater": 20}, r"--per-rater 20 .*: no room; a pair comes again 20 later"),
        ({"test_share": 0.95, "per_rater": 60, "again": 0.2}, "no room"),
        ({"test_share": -0.1}, "no room"),
        ({"again": -0.1}, "no room"),
        ({"test_share": 1.5, "again": 0}, "no room"),
        ({"model": "nowhere"}, "nowhere: no personal reward model"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_one_line(options, says):
    with pytest.raises(UsageError, match=says) as error:
        collection(**options)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("more", [{}, {"responses": ["One."]}, {"chosen": "a", "rejected": "b"}])
def test_questions_without_responses_are_refused(more):
    row = {"id": "q1", "question": "Tea?", **more}
    with pytest.raises(UsageError, match="teas: row 'q1' has no two `responses`"):
        collection(Dataset.from_rows("teas", [row]))
