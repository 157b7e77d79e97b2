"""What the tables of policy accuracy say: τ that is defined, notes on what is shown."""

from __future__ import annotations

import re

import pytest

from palate.metrics import kendall_agreement, rank_power
from palate.reports import Form, render
from palate.reports.policy_accuracy import tables as policy_tables
from palate.uses.policy_curves import PolicyAccuracy, Reserved
from reports.page.planted_results import policy_accuracy, policy_cell

TIED = [0.5, 0.5, 0.6, 0.7, 0.8, 0.8, 0.9]


def result(rewards, policies, weights=(0.0, 1.0, "inf"), scorer="judge:m{}", **more):
    """One cell per reward; policies by reading, the same at every weight."""
    p_holm = None if scorer.startswith("longest") else 0.04
    about = {"context": "none", "gain_p_holm": p_holm, "chosen": more.pop("chosen", weights[:1])}
    cells = [
        policy_cell(
            scorer.format(k), reward, [0.5] * len(weights), weights, unit=622.84 + k, **about
        )
        for k, reward in enumerate(rewards)
    ]

    def agreement(reading, weight):
        return kendall_agreement(rewards, policies.get((reading, weight), rewards))

    return policy_accuracy(cells, weights, agreement, **more)


def said(made: PolicyAccuracy) -> str:
    return " ".join(render(policy_tables(made), Form.TABLE).split())


def test_the_least_tau_is_told_of_rankings_without_ties():
    made = result(TIED, {})
    assert f"|τ| must reach {rank_power(7).critical_tau:.3f} for p ≤ 0.05 where no two tie" in (
        said(made)
    )
    assert "WARNING: 4 scorers show little: no τ reaches p = 0.05." in said(result(TIED[2:6], {}))


def test_the_sum_at_inf_is_no_finding_of_tilt():
    at = [(row[0], row[1]) for row in policy_tables(result(TIED, {}))[2].rows]
    assert at == [
        ("sum", "0"), ("sum", "1"), ("sum", "chosen"),
        ("mean", "0"), ("mean", "1"), ("mean", "inf"), ("mean", "chosen"),
    ]  # fmt: skip
    assert "The sum at inf is left out: it is the reward, whose ties fall to the policy." in said(
        result(TIED, {})
    )
    decoder = result(TIED, {}, score="decoder", method="genarm")
    assert ("sum", "inf") in [(row[0], row[1]) for row in policy_tables(decoder)[2].rows]
    assert "left out" not in said(decoder)


def test_what_a_tau_needs_is_told_where_it_is_undefined():
    made = result(TIED, {("sum", 0.0): [0.5] * 7})
    table = policy_tables(made)[2]
    assert list(table.rows[0][2:]) == ["7", "–", "–", "–"]
    assert "–: all rewards, or all policies, are equally accurate" in said(made)
    assert "equally accurate" not in said(result(TIED, {}))


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (result([0.5, 0.7], {}), "it needs 3 scorers under contexts"),
        (result([0.5] * 4, {}), "all rewards, or all policies, are equally accurate"),
    ],
)
def test_without_any_tau_there_is_a_line(made, told):
    table = policy_tables(made)[2]
    assert not table.columns and len(table.notes) == 1 and told in table.notes[0]
    assert "WARNING" not in said(made)


def test_a_policy_without_a_reward_has_no_table_of_tau():
    assert len(policy_tables(result(TIED, {}, guided=False))) == 2


def test_notes_are_of_what_is_shown():
    plain = said(result([0.5, 0.7], {}, weights=(1.0,)))
    assert "limit of the order" not in plain and "apart" not in plain
    assert "p by Holm over these rows." in plain and "folds" not in plain
    assert "inf: the limit of the order." in said(result([0.5], {}))
    assert "Holm" not in said(result([0.5], {}, scorer="longest"))
    decoder = {"score": "decoder", "method": "genarm"}
    assert "The ratio at 0" in said(result([0.5], {}, **decoder))
    assert "The ratio at 0" not in said(result([0.5], {}, weights=(1.0, 2.0), **decoder))
    assert "a weight for each fold" not in said(result([0.5], {}))
    assert "whole questions, a weight for each fold" in said(
        result([0.5], {}, chosen=(0.0, 1.0))
    )  # fmt: skip


def test_units_have_a_column_and_notes_lines_of_a_hundred():
    made = result(TIED, {}, relative=True, reserved=Reserved(source="left out", n=84))
    first = policy_tables(made)[0]
    at = first.columns.index("w(λ = 1)")
    assert [row[at] for row in first.rows[:2]] == ["622.8", "623.8"]
    assert "on 84 pairs that a limit, days or mirrors left out." in said(made)
    assert "pairs set the unit of λ" not in said(made)
    few = result(TIED, {}, relative=True, reserved=Reserved(source="set aside", n=2))
    assert "WARNING: 2 pairs set the unit of λ, too few to measure it; give 80 rows" in said(few)
    lines = render(policy_tables(made), Form.TABLE).splitlines()
    assert all(len(line) <= 100 for line in lines if re.match(r"\S", line))
    assert first.notes[0] in render([first], Form.MARKDOWN)
