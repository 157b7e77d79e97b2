"""Rows and responses that the tests of quality share."""

from __future__ import annotations

from palate.quality import QualityMetric, QualityScore, QuestionResponse
from palate.records import Gold, PreferencePair, RubricAspect
from palate.seeding import shuffled

STRONG = RubricAspect(
    aspect="Strong, dark tea", reason="Weak tea leaves them cold.", evidence="I like it black"
)
MILK = RubricAspect(aspect="No milk")
CHEAP = RubricAspect(aspect="Under five pounds")


def row(
    *aspects: RubricAspect,
    name: str = "q1",
    reference: str | None = None,
    narrative: str | None = "I drink four mugs before noon.",
) -> PreferencePair:
    return PreferencePair(
        id=name,
        user_id=name,
        text="Which tea should I buy?",
        chosen="THE CHOSEN ONE",
        rejected="THE REJECTED ONE",
        gold=Gold(aspects=aspects, narrative=narrative, reference=reference),
    )


def rated(quality: QualityMetric, *items: QuestionResponse) -> list[QualityScore]:
    """Return the ratings in the order of the items; each position must come once."""
    found = list(quality.rate(items))
    assert sorted(k for k, _ in found) == list(range(len(items)))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def check_order_changes_nothing(
    quality: QualityMetric, items: list[QuestionResponse], seed: int
) -> None:
    """The law of all measures: ratings follow their items, and lie in [0, 1]."""
    straight = rated(quality, *items)
    order = shuffled(range(len(items)), seed)
    assert rated(quality, *(items[k] for k in order)) == [straight[k] for k in order]
    for one in straight:
        for value in (one.value, *one.aspects):
            assert value is None or 0 <= value <= 1
