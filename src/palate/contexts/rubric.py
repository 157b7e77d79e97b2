"""The gold aspects themselves: an upper bound, never ranked."""

from __future__ import annotations

from palate.errors import SpecError
from palate.records import Gold, Part, QuestionView, Settings, Shown, User, UserPool
from palate.session import Session
from palate.specs import Spec
from palate.words import count_words


class Rubric:
    """Shows what the user expects, by the benchmark itself: an upper bound.

    Shows the titles and reasons of the pair's rubric aspects; marked oracle wherever printed.
    """

    oracle = True
    empty = False
    needs = ("aspects",)

    def __init__(self, spec: Spec, session: Session, settings: Settings) -> None:
        del settings
        spec.refuse_reference()
        if spec.options.get("of") == "stranger":
            raise SpecError(
                "rubric?of=stranger: a rubric belongs to its pair; there is no stranger's"
            )
        spec.only(())
        self.spec = str(spec)

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return the aspects, in the order they were written."""
        del view, user, pool
        aspects = gold.aspects if gold is not None else ()
        parts = tuple(
            Part(kind="aspect", rank=k, text=f"{a.aspect}: {a.reason}" if a.reason else a.aspect)
            for k, a in enumerate(aspects)
        )
        return Shown(parts=parts, own_words=sum(count_words(part.text) for part in parts))
