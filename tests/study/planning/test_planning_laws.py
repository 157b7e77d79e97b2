"""Whatever the rows: who is asked what, on which side, and that nothing tells of the gold."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from planned_rows import CONTEXTS, lines, planned, row_sets

from palate.records import user_key
from palate.seeding import rng
from palate.study.planning import balanced_directions

CHOSEN = st.lists(st.sampled_from(CONTEXTS), unique=True, min_size=1).map(tuple)
PER_PAIR = st.integers(1, 3)


def off(sides: Iterable[bool]) -> int:
    counted = Counter(sides)
    return abs(counted[True] - counted[False])


@given(row_sets(), CHOSEN, PER_PAIR, st.integers(0, 4), st.integers(0, 4))
def test_nobody_meets_a_pair_twice_and_sides_are_balanced(
    rows: list[dict[str, Any]], contexts: tuple[str, ...], per_pair: int, more: int, checks: int
) -> None:
    study = planned(rows, contexts, per_pair=per_pair, more=more, checks=checks)
    raters_of, left = Counter[str](), defaultdict[tuple[str, Any], list[bool]](list)
    for rater, entries in enumerate(study.plan.lists):
        items = [study.items[entry.item] for entry in entries]
        assert len({item.pair for item in items}) == len(items)
        assert Counter(item.kind for item in items)["check"] == checks
        for entry, item in zip(entries, items, strict=True):
            raters_of[item.id] += item.kind == "pair"
            # Of a check it is the expected answer that stands left as often as right.
            first = entry.swapped == (item.expected == "second")
            left["item", item.id].append(first)
            left[item.kind, rater].append(first)
        stretches = [len(entries) * k // checks for k in range(checks + 1)] if checks else []
        for a, b in zip(stretches, stretches[1:], strict=False):
            assert sum(item.kind == "check" for item in items[a:b]) == 1
    for item in (study.items[name] for name in study.plan.checks):
        number = item.question[0].content.split()[-1].strip("?")
        right = [answer.startswith(number) for answer in item.answers]
        assert right == [item.expected == "first", item.expected == "second"]
    pairs = {item.id for item in study.items.values() if item.kind == "pair"}
    assert {item: n for item, n in raters_of.items() if n} == dict.fromkeys(pairs, per_pair)
    assert max(map(off, left.values())) <= 1
    sizes = [len(entries) for entries in study.plan.lists]
    assert max(sizes) - min(sizes) <= 1
    of_check = Counter(
        e.item for entries in study.plan.lists for e in entries if e.item in study.plan.checks
    )
    assert not of_check or max(of_check.values()) - min(of_check.values()) <= 1


@given(row_sets(), CHOSEN, st.data())
def test_items_and_lists_do_not_change_where_choices_are_exchanged(
    rows: list[dict[str, Any]], contexts: tuple[str, ...], data: st.DataObject
) -> None:
    study = planned(rows, contexts)
    exchanged = [
        row | {"chosen": row["rejected"], "rejected": row["chosen"]} if turned else row
        for row in rows
        for turned in [data.draw(st.booleans())]
    ]
    other = planned(exchanged, contexts)
    with TemporaryDirectory() as folder:
        before, after = (lines(s, Path(folder) / str(k)) for k, s in enumerate((study, other)))
    assert before["items.jsonl"] == after["items.jsonl"]
    plan, other_plan = (json.loads(files["plan.json"]) for files in (before, after))
    differing = {name for name in plan if plan[name] != other_plan[name]}
    assert differing in (set(), {"content_hash", "hash", "gold"}, {"content_hash", "hash"})


@given(row_sets(), st.permutations(CONTEXTS).map(tuple))
def test_an_item_names_all_whose_posts_it_shows_and_none_shows_none(
    rows: list[dict[str, Any]], contexts: tuple[str, ...]
) -> None:
    study = planned(rows, contexts)
    posts = {post["text"]: row["user_id"] for row in rows for post in row["profile"]}
    bare = {row.item for row in study.gold if row.context == "none"} | {*study.plan.checks}
    for item in study.items.values():
        # The last post of a stranger may be cut.
        owners = [
            user_key(user)
            for part in item.shown
            for text, user in posts.items()
            if text.startswith(part.text) and part.text != user
        ]
        assert {*owners} <= {*item.users}
        assert (item.id in bare) == (not item.shown)
        assert item.id not in bare or not any(text in item.model_dump_json() for text in posts)
    shown = {row.row for row in study.gold if row.context == "profile:2"}
    assert shown == {row["id"] for row in rows if row["profile"]}


@given(row_sets())
def test_mirrored_rows_that_are_shown_nothing_are_one_item(rows: list[dict[str, Any]]) -> None:
    study = planned(rows, ("none",))
    assert len(study.items) - len(study.plan.checks) == len({row["question"] for row in rows})
    for behind in study.gold_of.values():
        users = {row.user for row in behind}
        assert {*study.items[behind[0].item].users} == users
        assert len({row.chosen for row in behind}) == len(behind)


@settings(max_examples=10)
@given(row_sets(), CHOSEN)
def test_a_seed_makes_one_plan_and_another_seed_another(
    rows: list[dict[str, Any]], contexts: tuple[str, ...]
) -> None:
    study = planned(rows, contexts)
    assert planned(rows, contexts).plan == study.plan
    others = [planned(rows, contexts, seed=seed) for seed in (1, 2)]
    assert any(other.plan.lists != study.plan.lists for other in others)


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_any_graph_is_walked_in_balance(n: int, m: int, data: st.DataObject) -> None:
    edges = [
        (("item", a), ("rater", b))
        for a in range(n)
        for b in range(m)
        for _ in range(data.draw(st.integers(0, 2)))
    ]
    ways = defaultdict[Any, list[bool]](list)
    walked = balanced_directions(edges, rng("walk", n, m))
    assert len(walked) == len(edges)
    for edge, forward in zip(edges, walked, strict=True):
        for vertex in edge:
            ways[vertex].append(forward)
    assert all(off(seen) <= 1 for seen in ways.values())


def test_six_thousand_items_are_balanced_in_a_second() -> None:
    edges = [(f"i{k}", (k * 7 + j) % 50) for k in range(6000) for j in range(3)]
    begun = time.process_time()
    walked = balanced_directions(edges, rng("many"))
    assert time.process_time() - begun < 2
    assert abs(2 * sum(walked) - len(walked)) <= 50  # one to either side of each of 50 raters
