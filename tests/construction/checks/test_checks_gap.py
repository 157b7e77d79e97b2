"""The gap: by hand, its null under third users' rubrics, and what it does not depend on."""

from __future__ import annotations

import numpy as np
import pytest
from checked_rows import aspect, checked, row, set_of
from hypothesis import given
from hypothesis import strategies as st

from palate.construction.audit import CheckOptions
from palate.construction.gap import NULL_GAPS, gap_faults
from palate.errors import BenchmarkError, UsageError
from palate.evaluation import Work
from palate.quality import QualityScore, require_aspects
from palate.records import Settings
from palate.seeding import unit
from palate.session import Session


class Planted:
    """A measure that looks up (answer, title of the rubric), and notes what it is asked."""

    spec, needs, surrogate, details = "planted", ("aspects",), False, {}

    def __init__(self, values=None, draw=None):
        self.values, self.draw, self.given = values or {}, draw, []
        self.fingerprint = f"planted {sorted(map(str, self.values.items()))} {draw}"

    def check(self, rows):
        require_aspects(rows)

    def rate(self, items):
        for k, (asked, answer) in enumerate(items):
            title = asked.gold.aspects[0].aspect
            self.given.append((answer, title))
            value = self.values.get((answer, title), 0.5)
            if self.draw is not None:
                value = unit(self.draw, answer, title)
            yield k, QualityScore(value=value, reason=None if value is not None else "no digit")


def couple(number, first, second):
    """Return the rows of two users who disagree about the answers x and y of a question."""
    names = f"{number}{first}", f"{number}{second}"
    text, x, y = f"{number}?", f"x{number}", f"y{number}"
    return [
        row(
            names[k],
            user,
            text=text,
            chosen=(x, y)[k],
            rejected=(y, x)[k],
            mirror_of=names[1 - k],
            rubric_aspects=(aspect(user),),
        )
        for k, user in enumerate((first, second))
    ]


@pytest.fixture
def work(tmp_path):
    return Work.of(Session(store=tmp_path))


def gap_of(rows, measure, limit, work):
    return checked(*rows, options=CheckOptions(adherence=measure, gap=limit), work=work)["gap"]


def test_a_couples_gap_is_the_sum_over_its_rows(work):
    values = {
        ("x1", "ann"): 0.9, ("y1", "ann"): 0.6, ("x1", "bob"): 0.8, ("y1", "bob"): 0.7,
        ("x2", "ann"): 0.5, ("y2", "ann"): 0.4, ("x2", "bob"): 0.9, ("y2", "bob"): 0.7,
    }  # fmt: skip
    rows = [*couple(1, "ann", "bob"), *couple(2, "ann", "bob")]
    result = gap_of(rows, Planted(values), "0", work)
    # 0.3 for ann and -0.1 for bob; 0.1 for ann and -0.2 for bob.
    np.testing.assert_allclose(result.gaps.gaps, [0.2, -0.1])
    assert result.details == (None, None, *["couple gap -0.100 is not above 0.000"] * 2)
    np.testing.assert_allclose(result.gaps.own_ratings[0], [0.9, 0.6])
    assert result.gaps.units == ((0, 1), (2, 3))
    assert result.counts.n_checked == 4
    assert gap_of(rows, Planted(values), "0.2", work).details[0] is not None  # equal is not above


def test_rows_alone_and_rows_without_a_rubric(work):
    first, second = couple(1, "ann", "bob")
    bare = second.model_copy(update={"gold": row().gold})
    alone = row("3", "cid", chosen="x", rejected="y", rubric_aspects=(aspect("cid"),))
    values = {("x1", "ann"): 0.75, ("x", "cid"): 0.25}
    result = gap_of([first, bare, alone], Planted(values), "0.1", work)
    assert result.details == (None, None, "gap -0.250 is not above 0.100")
    assert (result.counts.n_checked, result.gaps.units) == (2, ((0,), (2,)))
    assert np.isnan(result.gaps.own_ratings[1]).all()


def test_what_is_unrated_fails_and_says_so(work):
    rows = couple(1, "ann", "bob")
    result = gap_of(rows, Planted({("x1", "bob"): None}), "-1", work)
    assert result.details == ("unrated by planted",) * 2
    assert result.gaps.reasons == {"no digit": 1}


def test_the_null_is_of_two_third_users_for_each_couple_and_every_rating_is_asked_once(work):
    users = [f"u{k}" for k in range(9)]
    rows = [r for k in range(4) for r in couple(k, users[2 * k], users[2 * k + 1])]
    measure = Planted(draw="a")
    result = gap_of(rows, measure, "null:0.5", work)
    assert len(measure.given) == len(set(measure.given))
    # Six third users make three draws of two, though more are wanted.
    assert len(result.gaps.null[2]) == 12
    for k in range(4):
        asked = {title for answer, title in measure.given if answer == f"x{k}"}
        assert asked == {*users[:8]}
        third = result.gaps.third_ratings[2 * k : 2 * k + 2, :3]
        expected = {unit("a", f"x{k}", user) for user in {*users[:8]} - {*users[2 * k : 2 * k + 2]}}
        assert {*third[0, :, 0], *third[1, :, 1]} == expected
    nulls = [
        third[..., 0].sum(axis=0) - third[..., 1].sum(axis=0)
        for third in result.gaps.third_ratings[:, :3].reshape(4, 2, 3, 2)
    ]
    np.testing.assert_allclose(sorted(result.gaps.null[2]), sorted(np.ravel(nulls)))
    np.testing.assert_allclose(result.gaps.thresholds[2], np.median(result.gaps.null[2]))
    again = Planted(draw="a")
    kept = gap_of(rows[::-1], again, "null:0.5", work)
    assert again.given == []  # the order of the rows moves no draw
    np.testing.assert_allclose(sorted(kept.gaps.null[2]), sorted(result.gaps.null[2]))


def test_third_users_are_of_the_subset(work):
    rows = [*couple(1, "ann", "bob"), *couple(2, "cid", "dot")]
    other = [r.model_copy(update={"subset": "wine"}) for r in couple(3, "eve", "fay")]
    measure = Planted(draw="b")
    gap_of([*rows, *other], measure, "null:0.95", work)
    asked = {title for answer, title in measure.given if answer in ("x1", "x2")}
    assert asked == {"ann", "bob", "cid", "dot"}
    assert {title for answer, title in measure.given if answer == "x3"} == {"eve", "fay"}


def test_without_third_users_a_quantile_is_of_nothing(work):
    result = gap_of(couple(1, "ann", "bob"), Planted(), "null:0.95", work)
    assert (result.counts.needs, result.counts.n_checked) == ("third users with rubrics", 0)
    assert result.details == (None, None)
    assert result.gaps.thresholds == {2: None}


def test_pure_noise_passes_one_couple_in_twenty(work):
    rows = [r for k in range(400) for r in couple(k, f"a{k}", f"b{k}")]
    passed = []
    for seed in range(2):
        faults, gaps = gap_faults(set_of(*rows), Planted(draw=seed), "null:0.95", work)
        assert len(gaps.null[2]) == 400 >= NULL_GAPS
        passed.append(sum(not fault for fault in faults) / 800)
    assert 0.03 <= np.mean(passed) <= 0.07


values = st.lists(st.floats(0, 0.5), min_size=12, max_size=12)


@given(values, st.tuples(*[st.floats(0, 0.5)] * 2), st.integers(0, 3))
def test_what_is_good_for_anybody_moves_no_gap_of_a_couple(tmp_path_factory, drawn, shifts, seed):
    work = Work.of(Session(store=tmp_path_factory.mktemp("store")), Settings(seed=seed))
    users = ["ann", "bob", "cid", "dot"]
    rows = [*couple(1, *users[:2]), *couple(2, *users[2:])]
    keys = [(answer, user) for answer in ("x1", "y1", "y2") for user in users]
    table = dict(zip(keys, drawn, strict=True))
    good = dict(zip(("x1", "y1"), shifts, strict=True))
    shifted = {key: value + good.get(key[0], 0.0) for key, value in table.items()}
    plain, moved = (gap_of(rows, Planted(of), "null:0.95", work).gaps for of in (table, shifted))
    np.testing.assert_allclose(moved.gaps, plain.gaps, atol=1e-12)
    np.testing.assert_allclose(moved.null[2], plain.null[2], atol=1e-12)


@pytest.mark.parametrize("limit", ["null", "null:", "null:1", "null:0", "null:nan", "half", "inf"])
def test_a_limit_that_cannot_be_read_is_refused_in_one_line(limit, work):
    with pytest.raises(UsageError, match=f"--gap {limit}: expected a number, or null:Q") as raised:
        gap_of(couple(1, "ann", "bob"), Planted(), limit, work)
    assert "\n" not in str(raised.value)


def test_a_set_without_rubrics_has_no_gap(work):
    with pytest.raises(BenchmarkError, match=r"2 of 2 rows have no `rubric_aspects` \(1, 2\)"):
        gap_of([row("1"), row("2", "bob")], Planted(), "0", work)
    assert checked(row())["gap"].counts.needs == "--adherence MEASURE"
