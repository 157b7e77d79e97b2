"""Planted scorers are put in order."""

import pytest

from palate.reports.validity import tables as validity_tables
from palate.validity import Validity, validity


def test_twenty_planted_scorers_are_put_in_order(planted):
    runs, best = planted(20)
    found = validity([*runs, best], metrics=["accuracy"], root=None).summary
    (one,) = found.coefficients
    tau, *_ = one.agreements
    assert one.downstream.k == 4
    assert tau.n == 20
    assert tau.value >= 0.9
    assert tau.chance.p < 0.001
    assert tau.interval.low > 0.7
    assert one.scorers[0].downstream_value > one.scorers[-1].downstream_value + 0.1
    text = "\n".join(validity_tables(Validity(found))[0].notes)
    assert "WARNING" not in text
    # 240 rows tell such scorers well apart, by what they score and by what they pick.
    assert one.reliability.value > 0.9
    assert one.downstream_reliability.value > 0.9
    assert one.noise_ceiling == pytest.approx(
        (one.reliability.value * one.downstream_reliability.value) ** 0.5
    )
