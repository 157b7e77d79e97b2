"""From a spec to a context."""

from __future__ import annotations

from palate.records import Context, Settings
from palate.session import Session
from palate.specs import Spec, load

GROUP = "palate.contexts"


def build_context(spec: str, session: Session, settings: Settings | None = None) -> Context:
    """Build what a spec names: palate's own or an installed package's.

    >>> build_context("stranger:5", Session()).spec
    'profile:5?of=stranger'
    """
    parsed = Spec.parse(spec)
    made: Context = load(GROUP, parsed.kind)(parsed, session, settings or Settings())
    return made
