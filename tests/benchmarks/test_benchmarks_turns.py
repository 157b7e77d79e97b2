"""Who asks the same: turns are part of a question for couples, votes and clusters."""

from __future__ import annotations

import json
from typing import Any

from conversations import TURNS, row, two_users
from palate.benchmarks import Dataset, couple_votes
from palate.evaluation import evaluate

OTHER = [*TURNS[:2], {"role": "assistant", "content": "With coffee or with soup?"}]


def data(*rows: dict[str, Any]) -> Dataset:
    return Dataset.from_rows("teas", rows)


def test_a_couple_has_the_same_turns() -> None:
    ann, bob = two_users()
    assert couple_votes(data(ann, bob)) == {"ann": "bob", "bob": "ann"}
    spaced = [{**turn, "content": turn["content"].replace(" ", "\r\n")} for turn in TURNS]
    assert couple_votes(data(ann, bob | {"turns": spaced})) == {"ann": "bob", "bob": "ann"}
    for turns in (OTHER, TURNS[1:], None):
        assert couple_votes(data(ann, bob | {"turns": turns})) == {}
        named = data(ann | {"mirror_of": "bob"}, bob | {"mirror_of": "ann", "turns": turns})
        assert not named.mirrored and not named.couples


def test_a_vote_on_other_turns_is_another_vote() -> None:
    evaluated = data(row("1", "ann"))
    past = data(row("2", "ann"), row("3", "ann") | {"turns": OTHER})
    whole = evaluated.with_history(past.rows)
    assert [pair.id for pair in whole.history] == ["3"] and whole.history_left_out == 1
    split = data(row("1", "ann", split="test"), row("2", "ann", split="adapt"),
                 row("3", "ann", split="adapt") | {"turns": OTHER})  # fmt: skip
    assert [pair.id for pair in split.for_training().rows] == ["3"]


def test_rows_of_one_last_message_after_other_turns_share_no_question() -> None:
    ann, bob = two_users()
    run = evaluate("random", data(ann, bob, row("c", "cy") | {"turns": OTHER}), "none", root=None)
    hashes = [json.loads(line)["question_hash"] for line in run.lines()]
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_candidate_order_is_drawn_for_the_whole_conversation() -> None:
    texts = {str(k): [{"role": "user", "content": f"Day {k}."}] for k in range(64)}
    rows = [row(name, "ann") | {"turns": turns} for name, turns in texts.items()]
    run = evaluate("random", data(*rows), "none", root=None)
    lines = [json.loads(line) for line in run.lines()]
    first = sum(line["chosen_first"] for line in lines)
    assert 16 < first < 48, "one draw for all would be 0 or 64"
