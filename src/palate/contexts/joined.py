"""Contexts that are shown together, one after the other, of one and the same person."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from palate.records import Context, ContextInput, Gold, QuestionView, Shown, User, UserPool
from palate.seeding import digest


class JoinedContext:
    """Shows what each of several contexts shows, in their order.

    Each part is cut by its own rule; where the window is short, the last one's parts go first. A
    stranger is one third user who has what every part reads.
    """

    empty = False

    def __init__(self, spec: str, parts: Sequence[Context], of: str, draws: int) -> None:
        self.spec, self.parts, self.of, self.draws = spec, tuple(parts), of, draws
        self.oracle = any(part.oracle for part in parts)
        needs = (need for part in parts for need in getattr(part, "needs", ()))
        self.needs = tuple(dict.fromkeys(needs))
        prints = [getattr(part, "fingerprint", None) for part in parts]
        self.fingerprint = digest("joined", prints)

    def prepare(self, inputs: Iterable[ContextInput]) -> None:
        """Let each part do at once what would be costly row by row."""
        rows = [row._replace(pool=self.pool(row.pool)) for row in inputs]
        for part in self.parts:
            if (prepare := getattr(part, "prepare", None)) is not None:
                prepare(row if part.oracle else row._replace(gold=None) for row in rows)

    def shown(
        self, view: QuestionView, user: User, pool: UserPool, gold: Gold | None = None
    ) -> Shown:
        """Return the parts of all, ranked in the order of the contexts."""
        pool = self.pool(pool)
        each = [part.shown(view, user, pool, gold if part.oracle else None) for part in self.parts]
        ordered = [part for its in each for part in sorted(its.parts, key=lambda part: part.rank)]
        kinds = [part.spec.partition(":")[0].partition("?")[0] for part in self.parts]
        return Shown(
            parts=tuple(p.model_copy(update={"rank": rank}) for rank, p in enumerate(ordered)),
            own_words=sum(its.own_words for its in each),
            leaks_dropped=sum(its.leaks_dropped for its in each),
            shortfall_words=sum(its.shortfall_words for its in each),
            no_stranger=any(its.no_stranger for its in each),
            search_unmatched=any(its.search_unmatched for its in each),
            lacking=tuple(kind for kind, its in zip(kinds, each, strict=True) if not its.parts),
        )

    def notes(self) -> tuple[str, ...]:
        """Return what there is to say of each part."""
        return tuple(note for part in self.parts for note in getattr(part, "notes", tuple)())

    def pool(self, pool: UserPool) -> UserPool:
        """Return the pool whose stranger has what every part reads."""
        return pool.having(*self._read(pool))

    def _read(self, pool: UserPool) -> Iterator[str]:
        for part in self.parts:
            inner = getattr(part, "inner", None)  # a persona's is of choices or of posts
            yield from getattr(part if inner is None else inner(pool), "needs", ())
