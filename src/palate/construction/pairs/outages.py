"""An endpoint that did not answer: raised once all else came."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from palate.answers import Sample
from palate.answers.policies import Policy
from palate.answers.prompts import NotDrawn
from palate.errors import EndpointError


def refuse_outages(policy: Policy, replies: Iterable[Mapping[int, Sample | NotDrawn]]) -> None:
    """Raise `EndpointError` where an endpoint did not answer a prompt of these replies."""
    every = [reply for numbered in replies for reply in numbered.values()]
    reasons = [reply.reason for reply in every if isinstance(reply, NotDrawn) and reply.outage]
    if reasons:
        raise EndpointError(
            f"{policy.spec}: {len(reasons)} of {len(every)} replies did not come "
            f"({'; '.join(sorted(set(reasons)))}); what came is kept, run the same command again"
        )
