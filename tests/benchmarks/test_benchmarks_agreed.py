"""`--agreed only`: the pairs on which all users agree, counted by brute force beside."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from command_line import write_rows
from field_studies import alignment, write_csv
from palate.benchmarks import Dataset, LoadOptions, agreements, load_benchmark
from palate.cli.options import LoadingWithChoices
from palate.errors import BenchmarkError, UsageError
from palate.records import PreferencePair, normal_form


def vote(user: str, question: str, chosen: str, rejected: str, **more: Any) -> dict[str, Any]:
    row = {"user_id": user, "question": question, "chosen": chosen, "rejected": rejected}
    return {"id": f"{user} {question} {chosen}", **row, **more}


def set_of(*rows: dict[str, Any]) -> Dataset:
    return Dataset.of(rows, "votes").select()


def one_pair(chosen: str, **more: Any) -> list[dict[str, Any]]:
    """Return a vote of each of a, b, c: T for tea, M for milk, = for neither."""
    both = {"T": ("Tea.", "Milk."), "M": ("Milk.", "Tea."), "=": ("Tea.", "Milk.")}
    return [
        vote(user, "Drink?", *both[side], tie=side == "=", **more)
        for user, side in zip("abc", chosen, strict=False)
    ]


def asked(question: str, chosen: str) -> list[dict[str, Any]]:
    """Return the same votes on another question."""
    return [
        {**row, "id": f"{row['id']} {question}", "question": question} for row in one_pair(chosen)
    ]


@pytest.mark.parametrize("sides", ["TT", "TTM", "TT="])
def test_two_users_another_vote_or_a_tie_are_no_agreement(sides: str) -> None:
    with pytest.raises(BenchmarkError, match="votes: 3 users or more agree on no pair"):
        agreements(set_of(*one_pair(sides)))


def test_a_row_that_names_no_user_is_nobodys_vote_under_a_shared_id_too() -> None:
    rows: list[dict[str, Any]] = [{**row, "id": "q"} for row in one_pair("TTT")]
    del rows[2]["user_id"]
    with pytest.raises(BenchmarkError, match="1 rows name no user, and are nobody's votes"):
        agreements(set_of(*rows))


def test_choices_from_elsewhere_are_those_that_were_selected(tmp_path: Path) -> None:
    past = [
        {**vote("a", f"Food {k}?", "X", "Y"), "id": f"p{k}", "split": split}
        for k, split in enumerate(("train", "train", "test"))
    ]
    choices = Dataset.of(past, "past").select("train")
    rows = write_rows(tmp_path / "rows.jsonl", one_pair("TTT"))
    pairs = load_benchmark(str(rows), choices=choices)
    assert [pair.id for pair in pairs.history] == ["p0", "p1"]


def test_three_users_agree_in_whatever_form_the_texts_are() -> None:
    rows = [*one_pair("TTT"), vote("d", "Drink? ", "Tea. ", "Milk."), vote("e", "Food?", "X", "Y")]
    kept = agreements(set_of(*rows))
    assert {pair.user_id for pair in kept.pairs} == set("abcd")
    assert (kept.agreed, kept.mirrored, len(kept.everyone)) == (5, False, 5)
    assert kept.how_read["agreed"] == "only"
    assert "agreed" not in set_of(*rows).how_read


def test_who_votes_both_ways_does_not_agree_and_one_user_counts_once() -> None:
    twice = vote("a", "Drink?", "Milk.", "Tea.")
    with pytest.raises(BenchmarkError):
        agreements(set_of(*one_pair("TTT"), twice))
    again = {**one_pair("T")[0], "id": "again"}
    with pytest.raises(BenchmarkError):
        agreements(set_of(*one_pair("TT"), again))


def test_votes_of_the_past_count_and_a_users_traits_stay_those_of_the_file() -> None:
    rows = [{**row, "split": "test"} for row in one_pair("TTT", traits={"side": "east"})]
    later = {**vote("a", "Food?", "X", "Y"), "split": "test", "traits": {"side": "west"}}
    data = set_of(*rows, later)
    (pool,) = agreements(data).user_pools().values()
    assert {name: user.traits["side"] for name, user in pool.users.items()} == {
        "a": "west", "b": "east", "c": "east",
    }  # fmt: skip
    with pytest.raises(BenchmarkError, match="agree on no pair"):
        agreements(set_of(*rows, {**vote("d", "Drink?", "Milk.", "Tea."), "split": "adapt"}))


def test_other_words_are_refused_and_no_couple_agrees(tmp_path: Path) -> None:
    file = write_rows(tmp_path / "votes.jsonl", one_pair("TTM"))
    with pytest.raises(UsageError, match="--agreed all: the one choice is only"):
        load_benchmark(file, agreed="all")
    with pytest.raises(UsageError, match="--mirrors only, --agreed only: no couple agrees"):
        load_benchmark(file, agreed="only", mirrored="only")


@pytest.mark.parametrize("split", [None, "test"])
@pytest.mark.parametrize("user", ["a", "d"])
@pytest.mark.parametrize("side", ["M", "="])
def test_a_past_vote_breaks_agreement_whatever_becomes_of_it(
    side: str, user: str, split: str | None
) -> None:
    """One of the user's own evaluated pairs, and a tie, are no past choice, and votes still."""
    rows = [{**row, "split": "test"} for row in (*one_pair("TTT"), *asked("Food?", "TTT"))]
    past = {**one_pair(side)[0], "id": "past", "user_id": user, "split": "adapt"}
    kept = agreements(Dataset.of([*rows, past], "votes").select(split))
    assert {pair.text for pair in kept.pairs} == {"Food?"}


@pytest.mark.parametrize("subset", [{}, {"subset": "drinks"}])
@pytest.mark.parametrize("side", ["M", "="])
def test_choices_of_another_file_are_votes(
    side: str, subset: dict[str, str], tmp_path: Path
) -> None:
    both = (*one_pair("TTT"), *asked("Food?", "TTT"))
    file = write_rows(tmp_path / "votes.jsonl", [{**row, **subset} for row in both])
    past = {**one_pair(side)[0], "id": "past", "date": "2026-03-01"}
    early = {**vote("e", "Meal?", "X", "Y"), "date": "2026-01-01"}
    choices = write_rows(tmp_path / "choices.jsonl", [past, early])
    for days in ({}, {"until": "2026-02-01"}):
        dated = write_rows(
            tmp_path / "votes.jsonl", [{**row, **subset, "date": "2026-01-01"} for row in both]
        )
        loading = LoadingWithChoices(agreed="only", choices=str(choices), **days)
        (kept,) = loading.load_all([str(dated)], 0)
        assert {pair.text for pair in kept.pairs} == {"Food?"}
    assert len(load_benchmark(file, agreed="only").pairs) == 6


def test_a_later_choice_for_the_other_side_is_a_vote_both_ways() -> None:
    alike, other = ({"chosen_again": text} for text in ("Tea.", "Milk."))
    assert len(agreements(set_of(*one_pair("TTT", **alike))).pairs) == 3
    (first, *rest) = one_pair("TTT")
    with pytest.raises(BenchmarkError, match="agree on no pair"):
        agreements(set_of({**first, **other}, *rest))


def test_rows_that_name_no_user_are_nobodys_votes() -> None:
    bare = [{n: v for n, v in row.items() if n != "user_id"} for row in one_pair("TTT")]
    with pytest.raises(BenchmarkError, match="no pair; 3 rows name no user, and are nobody's vot"):
        agreements(set_of(*bare))
    assert len(agreements(set_of(*asked("Food?", "TTT"), *bare)).pairs) == 3


def brute_force(data: Dataset) -> set[str]:
    """Return the ids of the rows to keep, by sorting all votes and looking at each pair's."""

    def key(pair: PreferencePair) -> tuple[str, ...]:
        texts = sorted(normal_form(text) for text in (pair.chosen, pair.rejected))
        return pair.subset, pair.normal_key, *texts

    kept = set()
    votes = sorted((*data.pairs, *data.undecided, *data.unrated), key=key)
    for _, some in groupby(votes, key):
        pair = list(some)
        users = {each.user_id for each in pair}
        first = normal_form(pair[0].chosen)
        if len(users) > 2 and all(not p.tie and normal_form(p.chosen) == first for p in pair):
            kept |= {each.id for each in pair}
    return kept


ARGUMENTS = "convincing_arguments.jsonl.gz"


@pytest.mark.parametrize(
    ("names", "n"),
    [((ARGUMENTS,), 7_789), ((ARGUMENTS, "convincing_arguments_ties.jsonl.gz"), 5_527)],
)
@pytest.mark.full
def test_rows_of_real_votes_are_those_of_brute_force(
    names: tuple[str, ...], n: int, real_data: Path, tmp_path: Path
) -> None:
    file = tmp_path / ARGUMENTS  # a file of gzip may hold several, one after another
    file.write_bytes(b"".join((real_data / name).read_bytes() for name in names))
    whole = load_benchmark(file)
    kept = {pair.id for pair in agreements(whole).pairs}
    assert kept == brute_force(whole)
    assert len(kept) == n


def test_real_questions_of_one_user_each_have_no_agreement(real_data: Path) -> None:
    file = real_data / "stackexchange_accepted.jsonl.gz"
    assert not brute_force(load_benchmark(file))
    with pytest.raises(BenchmarkError, match="agree on no pair"):
        load_benchmark(file, agreed="only")


@pytest.mark.parametrize("each", [3, 8])
def test_rows_of_several_raters_are_those_of_brute_force(each: int, tmp_path: Path) -> None:
    write_csv(tmp_path, alignment(people=24, prompts=40, each=each))
    options = LoadOptions(source=tmp_path)
    whole = load_benchmark("community-alignment", split="all", options=options)
    kept = load_benchmark("community-alignment", split="all", agreed="only", options=options)
    assert {pair.id for pair in kept.pairs} == brute_force(whole)
    assert 0 < len(kept.pairs) < len(whole.pairs)
