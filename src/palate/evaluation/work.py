"""Models and settings of a command, where results lie, and who is told of progress."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Self, TypeAlias, TypedDict

from palate.benchmarks import Dataset
from palate.contexts import build_context
from palate.errors import UsageError
from palate.evaluation.states import adapt_to
from palate.execution import Shard
from palate.records import Context, Judge, Progress, Scorer, ScorerInfo, Settings
from palate.records.arguments import ObjectName, listed
from palate.scorers import Rater, build_scorer
from palate.session import Session, Start, default_session

Raters: TypeAlias = Rater | Iterable[Rater]
Contexts: TypeAlias = str | Context | Iterable[str | Context]


class WorkOptions(TypedDict, total=False):
    """What every public function takes that computes and keeps results, for `Work.of`."""

    session: Session | None
    settings: Settings | None
    root: Annotated[Path | str | None, "runs"]
    """Where results live; None keeps them in memory."""
    retry_unscored: Annotated[bool, False]
    """Whether replies that could not be read are asked for again."""
    start: Start | None
    """Told of each piece of work; gives its progress."""


def called(scorer: object) -> str:
    """Return what an object calls itself: its `spec` or `name`, else its class."""
    own = (getattr(scorer, name, None) for name in ("spec", "name"))
    return next((str(each) for each in own if each), type(scorer).__name__)


def silent(label: str) -> Progress:
    """Tell nobody of progress."""
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
    _contexts: dict[str, Context] = field(default_factory=dict, init=False, repr=False)
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
        other._contexts.update(self._contexts)
        other._adapted.update(self._adapted)
        return other

    def scorers(self, given: Raters, name: str | None = None) -> list[str]:
        """Return by what names scorers are called: their specs; of objects and functions, names.

        Those are `name`, where it is given, or what the object or its class calls itself. Raises
        `UsageError` for anything else, for two of one name, and for an object that declares no
        `info` where results are kept.
        """
        several = listed(given)
        if name is not None and len(several) != 1:
            raise UsageError(f"name={name!r}: it stands for one object, not for {len(several)}")
        names: dict[str, str] = {}
        for rater in several:
            text = rater
            if not isinstance(rater, str):
                built = build_scorer(rater, self.session, self.settings)
                text = ObjectName.of(built, name or called(built))
                self.scorer(text)
            first = names.setdefault(text, text)
            if first is not text and ObjectName in (type(first), type(text)):
                raise UsageError(f"two scorers are named {text}; give each a `name` of its own")
        return list(names.values())

    def contexts(self, given: Contexts) -> list[str]:
        """Return by what specs contexts are called; raises `UsageError` for what is none."""
        names: dict[str, str | Context] = {}
        for context in listed(given):
            text = context
            if not isinstance(context, str):
                built = build_context(context, self.session, self.settings)
                text = str(built.spec)
                self._contexts[text] = built
            if names.setdefault(text, context) is not context and text in self._contexts:
                raise UsageError(f"two contexts are named {text}; give each a spec of its own")
        return list(names)

    def scorer(self, scorer: str | Scorer | Judge) -> Scorer | Judge:
        """Return what a name stands for; raises `UsageError` for no `info` of kept results."""
        if not isinstance(scorer, str):
            return scorer
        if scorer not in self._scorers:
            built = (
                scorer.value
                if isinstance(scorer, ObjectName)
                else build_scorer(scorer, self.session, self.settings)
            )
            if self.root is not None and not isinstance(getattr(built, "info", None), ScorerInfo):
                raise UsageError(
                    f"{scorer} declares no `info`, so its numbers on disk could not be told from "
                    "another version's; give it info = palate.ScorerInfo(fingerprint=…), or pass "
                    "root=None"
                )
            self._scorers[scorer] = built
        return self._scorers[scorer]

    def context(self, context: str | Context) -> Context:
        """Return what a spec names, built anew: some count what they were asked for."""
        if isinstance(context, str) and context in self._contexts:
            return self._contexts[context]
        return build_context(context, self.session, self.settings)

    def adapted(self, scorer: str | Scorer | Judge, pairs: Dataset, spec: str) -> Scorer | Judge:
        """Return a scorer that knows a benchmark's earlier choices; raises as `adapt_to` does."""
        built = self.scorer(scorer)
        if not isinstance(scorer, str):
            return adapt_to(built, pairs, spec)
        key = scorer, id(pairs)
        if key not in self._adapted:
            self._adapted[key] = pairs, adapt_to(built, pairs, spec)
        return self._adapted[key][1]
