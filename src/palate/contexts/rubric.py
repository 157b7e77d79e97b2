"""The gold aspects themselves: an upper bound, never a contestant."""

from __future__ import annotations

from palate.errors import SpecError
from palate.records import Others, Part, PreferencePair, Settings, Shown, User
from palate.specs import Spec


class Rubric:
    """Shows the titles and reasons of the pair's rubric aspects; marked oracle wherever printed."""

    oracle = True
    blind = False
    needs = ("aspects",)

    def __init__(self, spec: Spec, settings: Settings) -> None:
        del settings
        spec.refuse_reference()
        if spec.options.get("of") == "stranger":
            raise SpecError(
                "rubric?of=stranger: a rubric belongs to its pair; there is no stranger's"
            )
        spec.only(())
        self.spec = str(spec)

    def shown(self, pair: PreferencePair, user: User, others: Others) -> Shown:
        """Return the aspects, in the order they were written."""
        del user, others
        parts = tuple(
            Part(kind="aspect", rank=k, text=f"{a.aspect}: {a.reason}" if a.reason else a.aspect)
            for k, a in enumerate(pair.rubric_aspects)
        )
        return Shown(parts=parts, own_words=sum(len(part.text.split()) for part in parts))
