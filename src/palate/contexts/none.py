"""Nothing of the user is shown: what the scorer thinks of people in general."""

from __future__ import annotations

from palate.records import Gold, QuestionView, Settings, Shown, User, UserPool
from palate.session import Session
from palate.specs import Spec


class NoContext:
    """Shows nothing: what a gain is measured against."""

    oracle = False
    empty = True

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        del settings
        spec.refuse_reference()
        spec.only(())
        self.spec = str(spec)

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return nothing."""
        del view, user, pool, gold
        return Shown()
