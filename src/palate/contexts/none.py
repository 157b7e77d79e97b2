"""Nothing of the user is shown: what the scorer thinks of people in general."""

from __future__ import annotations

from palate.records import Others, PreferencePair, Settings, Shown, User
from palate.specs import Spec


class Nothing:
    """Shows nothing."""

    oracle = False
    blind = True

    def __init__(self, spec: Spec, settings: Settings) -> None:
        del settings
        spec.refuse_reference()
        spec.only(())
        self.spec = str(spec)

    def shown(self, pair: PreferencePair, user: User, others: Others) -> Shown:
        """Return nothing."""
        del pair, user, others
        return Shown()
