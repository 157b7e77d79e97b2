"""One scorer under one context on one benchmark: checked, adapted, ready to compute."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from palate.benchmarks import Dataset
from palate.engines.http import place_of
from palate.errors import UsageError
from palate.evaluation.computation import Computation
from palate.evaluation.context_rows import ContextRows, make_rows
from palate.evaluation.states import user_keys_fn
from palate.evaluation.work import Work
from palate.execution import Results, RowSource
from palate.records import Context, Judge, Progress, Scorer, ScorerInfo, info_of
from palate.runs import JOURNAL, Identity, Journal, Manifest
from palate.seeding import digest
from palate.specs import Spec


def spec_of(scorer: Scorer | Judge, text: str | None, name: str | None = None) -> str:
    """Return what a scorer is called: without options that change no number, as a time-out."""
    if text is None:
        return name or type(scorer).__name__
    own = getattr(scorer, "canonical", None)
    return own if isinstance(own, str) else str(Spec.parse(text))


def not_applicable(info: ScorerInfo, context: Context) -> bool:
    """Tell whether a cell has no meaning: a scorer that needs text under a context without any."""
    return info.needs_shown and context.empty


def refuse(info: ScorerInfo, context: Context, spec: str) -> None:
    """Raise `UsageError` for a scorer under a context that makes no sense for it."""
    if not_applicable(info, context):
        raise UsageError(f"{spec} has no meaning under {context.spec}: nothing is shown")
    if info.protocol == "paper" and not context.empty:
        raise UsageError(f"{spec}: protocol=paper is defined without a profile; use -c none")


@dataclass(frozen=True)
class BoundScorer:
    """What is to be computed; `BoundScorer.of` builds it from specs or objects."""

    scorer: Scorer | Judge
    """With a state for each user, where it learns from their choices."""
    spec: str
    info: ScorerInfo
    context: Context
    pairs: Dataset
    rows: ContextRows
    work: Work
    built_from: str | None
    """The spec that a worker elsewhere builds the scorer from, where it can."""
    text: str | None = None
    """The spec as it was given; None for an object."""

    @classmethod
    def of(
        cls,
        scorer: str | Scorer | Judge,
        pairs: Dataset,
        context: str | Context,
        work: Work,
        *,
        name: str | None = None,
    ) -> BoundScorer:
        """Build scorer and context; raises `UsageError` where they make no sense together."""
        text = scorer if isinstance(scorer, str) else None
        built, built_context = work.scorer(scorer), work.context(context)
        spec = spec_of(built, text, name)
        adapted = work.adapted(scorer, pairs, spec)
        info = info_of(adapted, spec)
        refuse(info, built_context, spec)
        seed = work.settings.seed
        user_keys = user_keys_fn(adapted, info, pairs, seed)
        draws: int = getattr(adapted, "draws", 1)
        rows = make_rows(pairs, built_context, seed=seed, user_keys=user_keys, state_draws=draws)
        built_from = text if adapted is built else None
        return cls(adapted, spec, info, built_context, pairs, rows, work, built_from, text)

    @cached_property
    def judges(self) -> bool:
        """True where the scorer is a judge."""
        return isinstance(self.scorer, Judge)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the report must know of the scorer and the context."""
        note_sources = (self.scorer, self.context)
        told = [note for each in note_sources for note in getattr(each, "notes", tuple)()]
        place = place_of(self.info.details)
        noted = self.work.session.ledger.notes(place) if place else {}
        return (*self.info.notes, *told, *filter(None, noted.values()))

    def computation(self, rows: RowSource) -> Computation:
        """Plan the scorer's passes over the job's rows, or others made of them."""
        return Computation(self.scorer, self.spec, rows, self.work, built_from=self.built_from)

    @contextmanager
    def computed(
        self,
        rows: RowSource,
        kind: str,
        progress: Progress | None,
        identity: Mapping[str, Any],
        **more: str,
    ) -> Iterator[tuple[Computation, list[Results], Path | None]]:
        """Compute what is missing over the job's rows, or others made of them.

        Gives the computation, what each of its passes gave, and the folder of results in the
        work's place, locked as long as this lasts. `identity` is what the job does not know of the
        result's identity, `more` what is hashed beside it.
        """
        computation = self.computation(rows)
        if need_any := getattr(self.scorer, "need_any", None):
            need_any(rows.slate(row) for row in range(len(rows)))
        place, settings, details = self.work.place, self.work.settings, computation.details[0]
        with ExitStack() as stack:
            folder = journal = None
            if place is not None:
                named = Identity(
                    benchmark=self.pairs.name,
                    scorer=self.spec,
                    context=self.context.spec,
                    fingerprints=computation.fingerprints,
                    protocol=self.info.protocol,
                    split=self.pairs.split,
                    context_fingerprint=_shown_by(self.context, self.pairs),
                    seed=settings.seed,
                    dtype=details.get("dtype"),
                    device=details.get("device"),
                    batch_tokens=settings.batch_tokens,
                    **identity,
                )
                manifest = Manifest.of(
                    kind,
                    {**named.model_dump(mode="json"), **more},
                    passes=tuple(plan.id for plan in computation.plans),
                    details=computation.details,
                )
                folder = manifest.folder(place)
                journal = stack.enter_context(Journal(folder / JOURNAL))
                manifest.write(folder)
            tell = progress or (lambda done, total: None)
            passes = computation.run(journal, self.work.root, tell)
            yield computation, passes, folder


def _shown_by(context: Context, pairs: Dataset) -> str | None:
    """Return the hash of what a context computes with and, where it reads them, past choices."""
    own = getattr(context, "fingerprint", None)
    if "choices" in getattr(context, "needs", ()) and pairs.history:
        return digest("choices", own, pairs.history_hash)
    return own
