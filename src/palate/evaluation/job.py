"""One scorer under one context on one benchmark: checked, adapted, ready to compute."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np

from palate.benchmarks import Dataset
from palate.contexts import of_user, shows, strangers_of
from palate.contexts.rows import ContextRows, make_rows
from palate.errors import EndpointError, UsageError
from palate.evaluation.states import need_choices, user_keys_fn
from palate.evaluation.work import Computation, Work, journal_in, silent
from palate.execution import Results
from palate.models import choose_tokens
from palate.records import (
    NO_STRANGER,
    Context,
    Judge,
    Judgement,
    Progress,
    RowSource,
    Scorer,
    ScorerInfo,
    Scores,
    info_of,
    user_key,
)
from palate.records.arguments import ObjectName
from palate.runs import Identity, Manifest
from palate.scorers import Company, Mix, spec_of
from palate.seeding import canonical_json, digest

log = logging.getLogger("palate")


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
        named = scorer if isinstance(scorer, str) else None
        text = None if isinstance(named, ObjectName) else named
        built, built_context = work.scorer(scorer), work.context(context)
        spec = spec_of(built, named, name)
        adapted = work.adapted(scorer, pairs, spec)
        info = info_of(adapted, spec)
        refuse(info, built_context, spec)
        seed, draws = work.settings.seed, getattr(adapted, "draws", 1)
        keys = user_keys_fn(adapted, info, pairs, seed)
        rows = make_rows(pairs, built_context, seed=seed, user_keys=keys, state_draws=draws)
        built_from = text if adapted is built else None
        job = cls(adapted, spec, info, built_context, pairs, rows, work, built_from, text)
        if isinstance(adapted, Mix) and adapted.learns and work.shard is None:
            job = replace(job, scorer=taught(job, adapted))
        for line in job._stateless():
            log.warning("%s: %s", spec, line)
        return job

    @cached_property
    def judges(self) -> bool:
        """True where the scorer is a judge."""
        return isinstance(self.scorer, Judge)

    def alone(self, passes: Sequence[Results]) -> list[tuple[BoundScorer, Sequence[Results]]]:
        """Return each member of the scorer as if it stood alone, with what is its own."""
        if not isinstance(self.scorer, Company):
            return []
        pairs = self.scorer.of_members(passes)
        return [(replace(self, scorer=m.scorer, spec=m.name, info=m.info), it) for m, it in pairs]

    @cached_property
    def combine(self) -> Callable[[Sequence[Any]], Any]:
        """Makes a result of what each of the scorer's computations gave."""
        return getattr(self.scorer, "combine", itemgetter(0))

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader of the report must know of the scorer and the context."""
        parts = (self.scorer, self.context)
        notes = [note for part in parts for note in getattr(part, "notes", tuple)()]
        if later := self.rows.later_posts:
            notes.append(f"{later:,} posts that are not dated before their row are not shown")
        return (*self.info.notes, *notes, *self._untrained(), *self._stateless())

    def _untrained(self) -> tuple[str, ...]:
        """Say so where the scorer was trained under other contexts than this."""
        spec, trained = self.context.spec, self.info.contexts
        strangers = (strangers_of(t, [spec], of_kind=it) for t in trained for it in (False, True))
        known = spec in trained or any(strangers)
        if not trained or known or shows(spec) in ("nobody", "pressure"):
            return ()
        return (f"{self.spec} was trained under {' and '.join(trained)}, and not under {spec}",)

    def _stateless(self) -> tuple[str, ...]:
        """Say how many users a personal scorer has no state of, where it reads their own."""
        place = getattr(getattr(self.scorer, "users", None), "place", None)
        if place is None or not self.info.needs_user or getattr(self.scorer, "state", "") != "own":
            return ()
        users = {row.user_id for row in self.pairs.rows}
        lacking = sorted(user for user in users if user_key(user) not in place)
        first = f"{len(lacking)} of {len(users)} users have no state and are scored by the prior"
        return (f"{first} (the first: {lacking[0]})",) if lacking else ()

    def computation(self, rows: RowSource) -> Computation:
        """Plan the scorer's passes over the job's rows, or others made of them."""
        return Computation(self.scorer, self.spec, rows, self.work, self.built_from)

    def manifest(
        self, kind: str, computation: Computation, identity: Mapping[str, Any]
    ) -> Manifest:
        """Return what a result is and is made with; `identity` is what the job does not know."""
        settings = self.work.settings
        # The first of its computations that names a data type: vectors of a member may have none.
        typed = (each for each in computation.details if each.get("dtype"))
        details = next(typed, computation.details[0])
        fields = {"split": self.pairs.split, **identity}
        place = "cuda" if '"device":"cuda"' in canonical_json(computation.details) else "cpu"
        more = {name: fields.pop(name) for name in sorted(fields.keys() - Identity.model_fields)}
        context_print: str | None = getattr(self.context, "fingerprint", None)
        reads = "choices" in getattr(self.context, "needs", ())
        if (reads or getattr(self.scorer, "learns", False)) and self.pairs.history:
            context_print = digest("choices", context_print, self.pairs.history_hash)
        named = Identity(
            benchmark=self.pairs.name,
            scorer=self.spec,
            context=self.context.spec,
            fingerprints=computation.fingerprints,
            protocol=self.info.protocol,
            context_fingerprint=context_print,
            seed=settings.seed,
            dtype=details.get("dtype"),
            device=details.get("device"),
            batch_tokens=choose_tokens(settings.batch_tokens, place),
            **fields,
        )
        return Manifest.of(
            kind,
            {**named.model_dump(mode="json"), **more},
            passes=tuple(plan.id for plan in computation.plans),
            details=computation.details,
            command=self.pairs.command,
            account=self.pairs.account,
        )

    @contextmanager
    def computed(
        self, rows: RowSource, kind: str, progress: Progress | None, identity: Mapping[str, Any]
    ) -> Iterator[tuple[Computation, list[Results], Path | None]]:
        """Compute what is missing over the job's rows, or others made of them.

        Gives the computation, what each of its passes gave, and the folder of results in the
        work's place, locked as long as this lasts. `identity` is as `manifest` takes it.
        """
        computation = self.computation(rows)
        if need_any := getattr(self.scorer, "need_any", None):
            need_any(rows.slate(row) for row in range(len(rows)))
        manifest = folder = None
        if self.work.place is not None:
            manifest = self.manifest(kind, computation, identity)
            folder = manifest.folder(self.work.place)
        with journal_in(folder) as journal:
            if manifest is not None and folder is not None:
                manifest.write(folder)
            passes = computation.run(journal, self.work.root, progress or silent(""))
            yield computation, passes, folder


def lost_rows(passes: Sequence[Results]) -> int:
    """Return in how many rows the outside world failed."""
    return int(np.logical_or.reduce([results.outages for results in passes]).sum())


def need_replies(spec: str, passes: Sequence[Results], what: str) -> None:
    """Raise `EndpointError` where the outside world failed."""
    if lost := lost_rows(passes):
        raise EndpointError(
            f"{spec}: {lost} {what} were not scored (the endpoint did not answer, or the cost cap "
            "is reached); what came is kept, run the same command again"
        )


def unscored_reason(
    job: BoundScorer, row: int, passes: Sequence[Results], place: int
) -> str | None:
    """Return why a row has no score, whatever was computed; `place` is where the passes hold it."""
    if job.rows.no_stranger[row]:
        return NO_STRANGER
    for one, own in job.alone(passes) or [(job, passes)]:
        needed = one.info.needs_shown or (one.info.skips_unshown and not job.context.empty)
        if needed and not (job.rows.parts[row] and own[0].parts_of(place)):
            return "nothing shown" if one is job else f"{one.spec}: nothing shown"
    return None


def judgements(job: BoundScorer, passes: Sequence[Results], place: int) -> list[Judgement]:
    """Return what a judge said of every two of a row's candidates, as `combinations` does."""
    by_pass = (results.judgements(place) for results in passes)
    return [job.combine(said) for said in zip(*by_pass, strict=True)]


def combined(job: BoundScorer, passes: Sequence[Results], place: int) -> Scores:
    """Return the scores of a row, made of what each of the scorer's computations gave."""
    scores: Scores = job.combine([results.scores(place) for results in passes])
    return scores


def taught(job: BoundScorer, mix: Mix) -> Mix:
    """Return a mix with weights that are learnt on the users' past choices, of no evaluated row.

    They are learnt under the job's context; under a stranger's, as users are shown their own.
    """
    pairs, work, context = job.pairs, job.work, job.context
    need_choices(mix, pairs, job.spec)
    if "choices" in getattr(context, "needs", ()):
        raise UsageError(f"{job.spec}: {context.spec} shows what weights are learnt on; give them")
    if shows(context.spec) == "stranger":
        context = work.context(of_user(context.spec))
    past = pairs.past
    rows, name = make_rows(past, context, seed=work.settings.seed), f"{job.spec} {context.spec}"
    job = replace(job, context=context, pairs=past, rows=rows)
    margins = np.full((len(rows), len(mix.members)), np.nan)
    identity = {"rows": past.content_hash, "name": name}
    with job.computed(rows, "responses", work.start(name), identity) as (_, passes, _):
        need_replies(job.spec, passes, "past choices")
        for k, (m, (one, own)) in product(range(len(rows)), enumerate(job.alone(passes))):
            if unscored_reason(one, k, own, k) is None:
                first, second = np.array(combined(one, own, k).values, np.float64)
                margins[k, m] = (1 - 2 * rows.chosen_position(k)) * (first - second)
    users, questions = zip(*((pair.user_id, pair.key) for pair in past.pairs), strict=True)
    return mix.taught(margins, np.array(users), questions, past.content_hash)
