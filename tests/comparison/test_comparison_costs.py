"""The tax of a shown user, and who follows whom: planted scorers, and figures by hand."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command_line import write_rows
from palate.benchmarks import Dataset, load_benchmark
from palate.comparison import costs_of, evaluate, gains_of
from palate.errors import ComparisonError, UsageError
from palate.metrics import Clusters, Estimate, non_inferiority, paired_difference
from palate.records import Slate
from palate.runs import Cost
from palate.seeding import unit
from scripted import ByFunction

ROWS, WRONG = 200, 0.3
"""Rows, and the share on which a planted scorer that is shown nothing is wrong."""


def facts(n: int = ROWS) -> Dataset:
    rows = [
        {"id": f"f{k}", "question": f"Is claim {k} true?", "chosen": f"True, {k}.",
         "rejected": f"Untrue, {k}."}
        for k in range(n)
    ]  # fmt: skip
    return Dataset.of(rows, "facts").select()


@pytest.fixture
def lenders(tmp_path: Path) -> Path:
    rows = [
        {"id": k, "user_id": f"u{k}", "question": f"Drink {k}?", "chosen": "Tea",
         "rejected": "Milk",
         "profile": [{"id": f"p{k}", "text": f"I am u{k}."}]}
        for k in range(20)
    ]  # fmt: skip
    return write_rows(tmp_path / "lenders.jsonl", rows)


def planted(moved: Callable[[Slate], bool]) -> ByFunction:
    """Return a scorer that is right but on some rows, and turns its verdict where it is moved."""

    def score(slate: Slate, text: str) -> float:
        question = slate.question[-1].content
        right = text.startswith("True") != (unit("wrong", question) < WRONG)
        return float(right != moved(slate))

    return ByFunction(score)


def sycophant(slate: Slate, text: str) -> float:
    """Score what a shown post repeats, else what is true."""
    stated = any(text in part.text for part in slate.shown)
    return 2.0 * stated + text.startswith("True")


def cost(scorer: Any, context: str, data: Dataset | None = None, **more: Any) -> Cost:
    grid = evaluate(data or facts(), [scorer], ["none", context], root=None)
    (told,) = costs_of(grid.runs, **more)
    return told


def test_a_sycophant_follows_the_user_and_costs_all_it_knew() -> None:
    told = cost(ByFunction(sycophant), "pressure")
    assert (told.nothing, told.shown.value, told.tax.value, told.finding) == (1, 0, 1, "costs")
    assert told.follows is not None
    assert (told.follows.value, told.follows.n) == (1.0, ROWS)


def test_who_ignores_the_user_follows_nobody() -> None:
    told = cost(planted(lambda slate: False), "pressure")
    assert (told.tax.value, told.finding) == (0.0, "not shown")  # too few rows to say harmless
    assert told.n_needed == 303
    assert told.follows is not None
    assert (told.follows.value, told.follows.n) == (0.0, round(told.nothing * ROWS))
    assert cost(planted(lambda slate: False), "pressure", margin=0.05).finding == "harmless"


def test_follows_counts_rows_that_were_right_alone() -> None:
    """Turned on every row, also from wrong to right: all that was right falls."""
    told = cost(planted(lambda slate: bool(slate.shown)), "pressure")
    assert told.shown.value == pytest.approx(1 - told.nothing)
    assert told.tax.value == pytest.approx(2 * told.nothing - 1)
    assert told.follows is not None
    assert told.follows.value == 1.0


def test_the_tax_of_borrowed_users_is_that_of_the_paired_rows_by_them(lenders: Path) -> None:
    costly = planted(lambda slate: "u1" in str(slate.shown))  # of u1 and u10 to u19
    context = f"profile:5?users={lenders}"
    grid = evaluate(facts(), [costly, "longest"], ["none", context], root=None)
    assert not gains_of(grid.runs)
    told, baseline = costs_of(grid.runs)
    nothing, shown = (run.verdicts for run in grid.runs[:2])
    assert {*shown.users.tolist()} == {f"u{k}" for k in range(20)}
    assert {*nothing.users.tolist()} == {f"f{k}" for k in range(ROWS)}
    by = Clusters.of(shown.users.tolist(), questions=[f"q{k}" for k in range(ROWS)])
    tax = paired_difference(nothing.values, shown.values, by)
    assert (told.tax.value, told.tax.low, told.tax.high) == pytest.approx(
        (tax.value, tax.low, tax.high)
    )
    assert told.finding == "costs"
    assert told.follows is None
    assert baseline.tax.value == 0.0


def test_no_run_shown_nothing_and_other_rows() -> None:
    runs = evaluate(facts(20), ["longest"], ["pressure", "none"], root=None).runs
    (alone,) = costs_of(runs[:1])
    assert (alone.nothing, alone.tax.value, alone.finding) == (None, None, "not shown")
    assert alone.tax.note == "no run shown nothing (-c none), or it has no meaning there"
    assert alone.shown.n == 20
    other = evaluate(facts(19), ["longest"], ["none"], root=None).runs
    with pytest.raises(ComparisonError, match="longest under pressure: the run shown nothing"):
        costs_of([runs[0], *other])


@pytest.mark.parametrize("margin", [0, 0.5, -0.1, float("nan")])
def test_a_margin_outside_is_refused(margin: float) -> None:
    with pytest.raises(UsageError, match="expected a fall in accuracy between"):
        costs_of((), margin=margin)


def test_own_users_have_a_tax_where_all_agree(tmp_path: Path) -> None:
    rows = [
        {"id": f"{k}{user}", "user_id": user, "question": f"Claim {k}?", "chosen": f"True, {k}.",
         "rejected": f"Untrue, {k}.", "profile": [{"id": user, "text": f"I am {user}."}]}
        for k in range(90)
        for user in [f"u{(5 * k + n) % 24}" for n in range(2 + k % 4)]
    ]  # fmt: skip
    file = str(write_rows(tmp_path / "votes.jsonl", rows))
    where = {"root": tmp_path / "runs"}
    contexts = ["none", "profile:1", "stranger:1"]
    whole = evaluate(load_benchmark(file), ["longest"], contexts, **where)
    agreed = evaluate(load_benchmark(file, agreed="only"), ["longest"], contexts, **where)
    assert not costs_of(whole.runs)
    (told,) = costs_of(agreed.runs)
    n = sum(2 + k % 4 for k in range(90) if k % 4)
    assert (told.context, told.tax.n, told.tax.value) == ("profile:1", n, 0.0)
    # Rows are chosen for their users' agreement: what it tells of a ceiling is the choice.
    assert "Without the user, the best accuracy" in str(whole)
    assert "Without the user, the best accuracy" not in str(agreed)


def test_above_zero_and_below_the_margin_is_called_both() -> None:
    rng = np.random.default_rng(0)
    x = np.ones(20_000)
    y = (rng.random(x.size) > 0.01).astype(float)
    by = Clusters.of(np.arange(x.size) % 500, questions=np.arange(x.size))
    tax = paired_difference(x, y, by)
    assert (tax.low or 0) > 0
    assert non_inferiority(tax, margin=0.02).finding == "shown"


@pytest.mark.parametrize(("lost", "finding"), [(0, "shown"), (1, "not shown"), (9, "not shown")])
def test_few_changed_rows_prove_nothing(lost: int, finding: str) -> None:
    """Of 220 rows none may be lost at a margin of 0.02, though one is a loss of 0.0045."""
    x = np.r_[np.zeros(lost), np.ones(230 - lost)]
    tax = paired_difference(np.ones(230), x, np.arange(230))
    assert non_inferiority(tax, margin=0.02).finding == finding


def test_nothing_is_shown_without_an_interval() -> None:
    tested = non_inferiority(Estimate(0.0, n=3, note="few users"), margin=0.1)
    assert (tested.finding, tested.note, tested.n_needed) == ("not shown", "few users", None)
    mixed = planted(lambda slate: bool(slate.shown) and "1" in str(slate.question))
    told = cost(mixed, "pressure", facts(2))
    assert (told.tax.low, told.finding) == (None, "not shown")
    assert told.tax.note


def test_a_question_that_is_lost_with_its_rows_counts_once() -> None:
    """Of 30 questions of ten rows none is lost: one of 30 is more than a margin of 0.02."""
    by = Clusters.of(np.arange(300) % 100, questions=np.arange(300) // 10)
    tax = paired_difference(np.ones(300), np.ones(300), by)
    assert non_inferiority(tax, margin=0.02).finding == "shown"
    assert non_inferiority(tax, margin=0.02, questions=30).finding == "not shown"
    assert non_inferiority(tax, margin=0.02, questions=300).finding == "shown"
