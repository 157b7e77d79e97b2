"""What filters see: shares by hand, twins of answers, rubrics against posts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from checked_rows import aspect, post, row, set_of

from palate.construction.filter_validation import (
    ELSEWHERE,
    SHORTENED,
    SHUFFLED,
    adherence_sight,
    blind_sights,
    rubric_sight,
    share_won,
    twins,
)
from palate.construction.gap import Gaps
from palate.evaluation import Work
from palate.quality import QualityScore, require_aspects
from palate.records import Post
from palate.session import Session


def answer(k: int, n: int = 40) -> str:
    return " ".join(f"w{k}x{j}" for j in range(n))


def answered(n: int = 31, **fields: Any) -> Any:
    return set_of(
        *(row(f"r{k}", f"u{k}", text=f"{k}?", chosen=answer(k), **fields) for k in range(n))
    )


def test_a_lower_wilson_end_above_a_half_takes_21_of_30() -> None:
    won, lost = (share_won("gap", "other", [True] * k + [False] * (30 - k)) for k in (21, 20))
    assert won.shown and not lost.shown
    # (p + z²/2n ± z √(p(1-p)/n + z²/4n²)) / (1 + z²/n)
    z, n, p = 1.959964, 30, 21 / 30
    half = z * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    ends = [(p + z**2 / (2 * n) + side * half) / (1 + z**2 / n) for side in (-1, 1)]
    np.testing.assert_allclose([won.low, won.high], ends, atol=1e-6)
    few = share_won("gap", "other", [True] * 29)
    assert (few.won, few.n, few.low, few.high, few.shown) == (29, 29, None, None, False)


def test_each_kind_has_thirty_twins_of_different_answers() -> None:
    pairs = answered()
    made = twins(pairs, 0)
    assert [r.subset for r in made.rows] == [
        kind for kind in (SHUFFLED, SHORTENED, ELSEWHERE) for _ in range(30)
    ]
    chosen = {pair.chosen for pair in pairs.pairs}
    for twin in made.pairs:
        assert twin.chosen in chosen and twin.rejected != twin.chosen
        words, originals = twin.rejected.split(), twin.chosen.split()
        if twin.subset == SHUFFLED:
            assert sorted(words) == sorted(originals)
        elif twin.subset == SHORTENED:
            assert words == originals[:30]
        else:
            assert twin.rejected in chosen
    assert len({twin.id for twin in made.rows}) == 90
    assert twins(set_of(*pairs.rows), 0) == made
    assert twins(pairs, 1).rows != made.rows


def test_an_answer_that_is_its_own_twin_is_passed_over() -> None:
    rows = [row("a", chosen="one"), row("b", "bob", chosen="one two"), row("c", chosen="one")]
    made = twins(set_of(*rows), 0)  # one question, and none has more than 30 words
    assert [(r.subset, r.chosen, r.rejected) for r in made.pairs] in (
        [],
        [(SHUFFLED, "one two", "two one")],
    )
    script = answered(1).rows[0].model_copy(update={"chosen": "热的红茶好" * 10})
    (shuffled, shortened) = twins(set_of(script), 0).pairs
    assert sorted(shuffled.rejected) == sorted(script.chosen)
    assert shortened.rejected == script.chosen[:30]


def test_an_answer_that_many_chose_is_tried_once() -> None:
    rows = [row(f"r{k}", f"u{k}", chosen=answer(0)) for k in range(40)]
    assert [twin.subset for twin in twins(set_of(*rows), 0).rows] == [SHUFFLED, SHORTENED]


@pytest.mark.parametrize(("blind", "won"), [("longest", (0, 30)), ("shortest", (0, 0))])
def test_length_sees_what_is_cut_and_no_order_of_words(blind: str, won: tuple[int, int]) -> None:
    shuffled, shortened, elsewhere = blind_sights(answered(), blind, Work.of())
    assert (shuffled.won, shortened.won) == won
    assert [sight.n for sight in (shuffled, shortened, elsewhere)] == [30, 30, 30]
    assert shortened.shown == (won[1] == 30)


def test_the_own_rubric_is_held_against_the_first_third_users() -> None:
    own = np.array([[0.9, 0.1], [0.5, 0.9], [0.7, 0.2], [np.nan, 0.3], [0.4, 0.4]])
    third = np.full((5, 2, 2), np.nan)
    third[:, 0, 0] = [0.8, 0.5, 0.9, 0.1, np.nan]  # won, a tie, lost, and two without a value
    third[:, 1, 0] = 0.0
    sight = adherence_sight(Gaps(own, third, (), np.zeros(0), {}, {}, {}))
    assert (sight.won, sight.n) == (1, 3)
    assert adherence_sight(Gaps(own, third[:, :0], (), np.zeros(0), {}, {}, {})).n == 0


class NamesIts:
    """A measure of how many posts name the rubric's title; it notes what it is given."""

    spec, fingerprint, needs, surrogate = "names", "names", ("aspects",), False
    details: dict[str, Any] = {}

    def __init__(self) -> None:
        self.given: list[tuple[str, str]] = []

    def check(self, rows: Any) -> None:
        require_aspects(rows)

    def rate(self, items: Any) -> Any:
        for k, (asked, text) in enumerate(items):
            (only,) = asked.gold.aspects
            assert only.evidence == ""
            self.given.append((only.aspect, text))
            yield k, QualityScore(value=text.count(only.aspect) / 10)


def test_posts_that_are_quoted_are_left_out_and_as_many_are_drawn(tmp_path: Any) -> None:
    def posts(user: str) -> tuple[Post, ...]:
        return tuple(post(f"{user} wrote {k}", f"{user}{k}") for k in range(4))

    rows = [
        row(user, user, profile=posts(user), rubric_aspects=(aspect(user, evidence=quote),))
        for user, quote in (("ann", "ann  wrote 2\nann wrote 3"), ("bob", "nowhere"), ("cid", ""))
    ]
    bare = row("dot", "dot", profile=posts("dot"))
    measure = NamesIts()
    (sight,) = rubric_sight(set_of(*rows, bare), measure, Work.of(Session(store=tmp_path)))
    assert (sight.filter, sight.won, sight.n) == ("rubric", 3, 3)
    texts = {title: [] for title in ("ann", "bob", "cid")}
    for title, text in measure.given:
        texts[title].append(text.split("\n\n"))
    assert {name: [len(drawn) for drawn in of] for name, of in texts.items()} == {
        "ann": [2, 2], "bob": [4, 4], "cid": [4, 4],
    }  # fmt: skip
    assert set(texts["ann"][0]) == {"ann wrote 0", "ann wrote 1"}
    measure.needs = ("reference",)
    assert rubric_sight(set_of(*rows), measure, Work.of(Session(store=tmp_path))) == []
