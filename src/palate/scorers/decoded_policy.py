"""A policy steered token by token, read as a scorer of responses: Σ_t log π_w(y_t | x, y_<t)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, cast

import numpy as np

from palate.errors import SpecError, UsageError
from palate.guidance import (
    PRESETS,
    TOKEN_METHODS,
    Candidates,
    PrefixGuide,
    TokenGuide,
    refuse_other_tokens,
)
from palate.guidance.candidates import K
from palate.guidance.fusion import args_preset
from palate.guidance.teacher_forcing import (
    COLUMNS,
    LogProbSums,
    TeacherForced,
    candidate_sums,
    fused_sums,
    weight_name,
)
from palate.metrics.policy import PolicyScores
from palate.records import (
    Component,
    Prepared,
    Scorer,
    ScorerInfo,
    Scores,
    Slate,
    components_of,
    info_of,
    prepared_slates,
)
from palate.records.prepared import without_worst
from palate.scorers.policy_likelihood import PolicyLikelihood
from palate.scorers.tilted_policy import StatefulPolicy, SteeredPolicy, numbers, read_weight
from palate.seeding import digest
from palate.specs import Spec

if TYPE_CHECKING:
    from palate.engines import LocalModel

CANDIDATES = "args"
TOO_LONG = "too long"


class Decoder:
    """What all weights of one method share: the models' readings of a slate, each done once.

    What came of a slate is stored in the store, by itself, so that another weight's pass reads it.
    """

    def __init__(
        self, policy: PolicyLikelihood, guide: Scorer, spec: Spec, weights: Sequence[float]
    ) -> None:
        self.policy, self.scorer = policy, guide
        self.policy_shown = spec.options.get("shown") == "yes"
        self.method = spec.choice("method", TOKEN_METHODS, "genarm")
        if self.method != CANDIDATES and "k" in spec.options:
            raise SpecError(f"spec {str(spec)!r}: k counts candidates; it goes with method=args")
        self.candidates = Candidates(1.0, spec.number("k", K, least=1))
        self.preset = PRESETS.get(self.method)
        """The fusion; None for candidates whose prefixes are rated."""
        self.weights = tuple(weights)
        named = spec.options["guide"]
        self.guide = self._guide(named)
        self.base_info = info_of(guide, named)
        prints = [info_of(part.scorer, named).fingerprint for part in components_of(guide)]
        self.fingerprint = digest(
            "decoder",
            policy.info.fingerprint,
            self.base_info.fingerprint,
            prints,
            self.method,
            self.candidates.k,
            self.policy_shown,
        )
        self._last: tuple[Slate, Prepared] | None = None

    def _guide(self, named: str) -> TokenGuide | PrefixGuide:
        what = "single tokens"
        guide: TokenGuide | PrefixGuide | None = getattr(self.scorer, "token_guide", lambda: None)()
        if guide is None and self.preset is None:
            guide = getattr(self.scorer, "prefix_guide", lambda: None)()
            what += " and no prefixes"
        if guide is None:
            raise UsageError(f"{named} rewards no {what}; use --score tilt, which takes any scorer")
        otherwise = "--score tilt reads texts"
        refuse_other_tokens(self.policy.local.reader, guide, named, otherwise)
        if self.preset is not None:
            self.preset.check(self.method, cast(TokenGuide, guide).coefficients, named)
        elif getattr(guide, "coefficients", None) is not None:
            self.preset = args_preset(self.candidates.k)
        return guide

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the windows of all models, beside the longest response that fits."""
        if dropped is not None:
            return Prepared(without_worst(slate, dropped), dropped)
        last = self._last
        if last is None or last[0] is not slate:  # every sum of a row asks for it
            last = self._last = slate, self._cut(slate)
        return last[1]

    def _cut(self, slate: Slate) -> Prepared:
        fitting = [] if not slate.shown else [r for r in self._responses(slate) if r is not None]
        if not fitting:
            return Prepared(slate)
        read = self.guide.read(slate, max(len(forced.response) for forced in fitting))
        return Prepared(read.slate, read.dropped)

    def sums(self, slate: Slate) -> list[LogProbSums | None]:
        """Return the sums of every candidate; None for one that is too long for a window."""
        store = self.policy.local.session.store.documents("policy-decoder")
        key = digest(self.fingerprint, slate.prompt_key, slate.candidates)
        stored: list[LogProbSums | None] | None = store.get_json(key)
        wanted = {weight_name(w) for w in self.weights if w and np.isfinite(w)}
        if stored is not None and all(sums is None or wanted <= sums.keys() for sums in stored):
            return stored
        made = self._computed(slate)
        if stored is not None:  # what is there stays as it is
            made = [new and old and {**new, **old} for new, old in zip(made, stored, strict=True)]
        store.put_json(key, made)
        return made

    def _responses(self, slate: Slate) -> list[TeacherForced | None]:
        bare = slate if self.policy_shown else slate.without_context()
        try:
            nothing = self.guide.read(slate.without_context(), 0).prompts
        except UsageError:  # not even the question fits
            return [None] * len(slate.candidates)
        responses: list[TeacherForced | None] = []
        for ids, start in self.policy.encoded(bare):
            prompt, response = ids[:start], ids[start:]
            lengths = [(self.policy.local.reader, len(ids))]
            lengths += [
                (reader, len(before) + len(response) + len(getattr(self.guide, "closing", ())))
                for reader, before in zip(self.guide.readers, nothing, strict=True)
            ]
            fits = all(r.window is None or n <= r.window for r, n in lengths)
            responses.append(TeacherForced(prompt, nothing, response) if fits else None)
        return responses

    def _computed(self, slate: Slate) -> list[LogProbSums | None]:
        candidates = self._responses(slate)
        fitting = [forced for forced in candidates if forced is not None]
        if not fitting:
            return [None] * len(candidates)
        read = self.guide.read(slate, max(len(forced.response) for forced in fitting))
        responses = [forced._replace(prompts=read.prompts) for forced in fitting]
        with ExitStack() as stack:
            policy: LocalModel = self.policy.local.model
            stack.enter_context(policy.in_use())
            stack.enter_context(self.guide.in_place())
            if self.preset is None:
                guide = cast(PrefixGuide, self.guide)
                sums = candidate_sums(
                    self.candidates, policy, guide, read.slate, responses, self.weights
                )
            else:
                terms = cast(TokenGuide, self.guide)
                sums = fused_sums(self.preset, policy, terms, responses, self.weights)
        made = iter(sums)
        return [None if forced is None else next(made) for forced in candidates]


class DecoderColumn:
    """One of the sums of a decoder, as a computation of its own."""

    def __init__(self, decoder: Decoder, name: str) -> None:
        self.decoder, self.name = decoder, name
        self.info: ScorerInfo = decoder.base_info.model_copy(
            update={
                "fingerprint": digest(decoder.fingerprint, name),
                "cuts": True,
                "exact": False,
                "log_odds": False,
            }
        )

    def prepare(self, slate: Slate, dropped: int | None = None) -> Prepared:
        """Cut what is shown to the windows of all models."""
        return self.decoder.prepare(slate, dropped)

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield the sums."""
        return self.score_prepared(prepared_slates(self, slates))

    def score_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Scores]]:
        """Yield the sums, as `score`."""
        for k, read in enumerate(prepared):
            by_candidate = self.decoder.sums(read.slate)
            values = tuple(None if sums is None else sums[self.name] for sums in by_candidate)
            reasons = tuple(TOO_LONG if sums is None else None for sums in by_candidate)
            yield k, Scores(values=values, reasons=reasons)


class DecodedPolicy(SteeredPolicy):
    """A policy that a guide steers token by token: Σ_t log π_w(y_t | x, y_<t), teacher-forced.

    `?method=` is one of the fusions, by default `genarm`, or `args`, where the policy's `?k=`
    likeliest tokens and the response's own are candidates, rated by token or by prefix.
    """

    def read_weights(self, spec: Spec) -> tuple[float, ...]:
        """Return the weights of the spec: the score is at the first, all share their readings."""
        where = f"spec {str(spec)!r}: weight"
        preset = PRESETS.get(spec.options.get("method", "genarm"))
        texts = spec.options.get("weight", f"{1.0 if preset is None else preset.weight:g}")
        least = 0.0 if preset is None else -np.inf
        return tuple(read_weight(text, where, least) for text in texts.split(","))

    def further_components(self) -> tuple[Component, ...]:
        """Return the sums that all weights need, and that of each weight."""
        decoder = Decoder(self.start, self.guide, self.spec, self.weights)
        names = (*COLUMNS, *(weight_name(w) for w in self.weights if w and np.isfinite(w)))
        self.columns = {name: Component(DecoderColumn(decoder, name)) for name in names}
        return tuple(self.columns.values())

    def policy_scores(self, reward: np.ndarray, parts: Mapping[Component, Scores]) -> PolicyScores:
        """Return the scores at all weights that were asked for."""
        by = {name: numbers(parts[column]) for name, column in self.columns.items()}
        lost = np.isnan(reward) | np.isnan(by["base"])
        by = {name: np.where(lost, np.nan, sums) for name, sums in by.items()}
        named = {name: by.pop(name) for name in COLUMNS}
        return PolicyScores(
            **named,
            reward=np.where(lost, np.nan, reward),
            weighted={float(name): sums for name, sums in by.items()},
        )


class StatefulDecodedPolicy(DecodedPolicy, StatefulPolicy):
    """A policy that a guide with a state per user steers token by token."""
