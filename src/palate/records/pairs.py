"""A preference pair: one user's question, what they chose, and the gold that explains it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palate.records.users import Post, Record, RubricAspect
from palate.seeding import digest


class PreferencePair(Record):
    """One row of a benchmark (the columns of Personalized RewardBench and their kin).

    Scorers never receive a pair, only a `Slate`: everything from `rubric_aspects` down is gold or
    provenance and has no way into one.
    """

    id: str
    user_id: str
    """Whose preference this is; the row's own id where the data names no user."""
    question: str
    profile: tuple[Post, ...] = ()
    """What this user had written before the question, oldest first."""
    chosen: str
    rejected: str
    subset: str = "all"
    category: str = ""
    split: str | None = None
    tie: bool = False
    traits: Mapping[str, str] = {}

    rubric_aspects: tuple[RubricAspect, ...] = ()
    narrative: str | None = None
    reference: str | None = None
    chosen_rating: float | None = None
    rejected_rating: float | None = None
    rating_scale: tuple[float, float] | None = None
    mirror_of: str | None = None
    """The id of the pair of another user that asks the same and wants the opposite."""
    attribution: str | None = None
    source_url: str | None = None
    extra: Mapping[str, Any] = {}
    """Columns palate does not know: kept, named once, never rendered."""

    @property
    def asked(self) -> str:
        """Hash of the question and the two responses: rows are paired by id and this."""
        return digest(self.question, self.chosen, self.rejected)[:16]
