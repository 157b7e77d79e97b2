"""Models and settings of a command, where results lie, and who is told of progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.evaluation.states import adapt_to
from palate.execution import Shard
from palate.records import Context, Judge, Progress, Scorer, Settings
from palate.scorers import build_scorer
from palate.session import Session, default_session

Start = Callable[[str], Progress]
"""Called with the name of a piece of work that begins; gives that work's progress, which a scorer
that needs two passes moves twice for each row."""


def silent(label: str) -> Progress:
    """Tell nobody of progress."""
    del label
    return lambda done, total: None


@dataclass(frozen=True, eq=False)
class Work:
    """One command's work: each scorer is built once, and adapted once to a benchmark's users.

    >>> work = Work.of()
    >>> work.scorer("longest") is work.scorer("longest")
    True
    """

    session: Session
    settings: Settings
    root: Path | None = None
    """Where results live; None keeps them in memory."""
    retry_unscored: bool = False
    """Whether replies that could not be read are asked for again."""
    start: Start = silent
    shard: Shard | None = None
    """Which batches are computed; None for all."""
    counts: dict[Path, Counter[str]] = field(default_factory=dict, repr=False)
    """By folder: what was done in its passes (see `Pass.count`)."""
    _scorers: dict[str, Scorer | Judge] = field(default_factory=dict, init=False, repr=False)
    _adapted: dict[tuple[str, int], tuple[Dataset, Scorer | Judge]] = field(
        default_factory=dict, init=False, repr=False
    )

    @classmethod
    def of(
        cls,
        session: Session | None = None,
        settings: Settings | None = None,
        root: Path | str | None = None,
        *,
        retry_unscored: bool = False,
        start: Start | None = None,
        shard: Shard | None = None,
    ) -> Self:
        """Return the work of a function that was given these; without a session, the program's."""
        return cls(
            session or default_session(),
            settings or Settings(),
            None if root is None else Path(root),
            retry_unscored,
            start or silent,
            shard,
        )

    @property
    def place(self) -> Path | None:
        """Where this work writes: the root, or its shard's folder below it."""
        shard, root = self.shard, self.root
        return root if shard is None or root is None else shard.folder(root)

    def telling(self, start: Start) -> Self:
        """Return the same work that tells somebody else of its progress."""
        other = replace(self, start=start)
        other._scorers.update(self._scorers)
        other._adapted.update(self._adapted)
        return other

    def scorer(self, scorer: str | Scorer | Judge) -> Scorer | Judge:
        """Return what a spec names; an object is what it is."""
        if not isinstance(scorer, str):
            return scorer
        if scorer not in self._scorers:
            self._scorers[scorer] = build_scorer(scorer, self.session, self.settings)
        return self._scorers[scorer]

    def context(self, context: str | Context) -> Context:
        """Return what a spec names, built anew: some count what they were asked for."""
        if not isinstance(context, str):
            return context
        return build_context(context, self.session, self.settings)

    def adapted(self, scorer: str | Scorer | Judge, pairs: Dataset, spec: str) -> Scorer | Judge:
        """Return a scorer that knows the earlier choices of a benchmark's users.

        Raises what `adapt_to` does.
        """
        built = self.scorer(scorer)
        if not isinstance(scorer, str):
            return adapt_to(built, pairs, spec)
        key = scorer, id(pairs)
        if key not in self._adapted:
            self._adapted[key] = pairs, adapt_to(built, pairs, spec)
        return self._adapted[key][1]
