"""From a spec to a scorer or judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from palate.errors import SpecError
from palate.learning.p_dpo import is_policy
from palate.records import Judge, Scorer, Settings
from palate.session import Session
from palate.specs import Spec, load

GROUP = "palate.scorers"


def build_scorer(spec: str, session: Session, settings: Settings | None = None) -> Scorer | Judge:
    """Build what a spec names: palate's own or an installed package's.

    What is registered under `palate.scorers` is called with (spec, session, settings).

    >>> type(build_scorer("longest", Session())).__name__
    'Longest'
    """
    parsed = Spec.parse(spec)
    made = _maker(parsed)(parsed, session, settings or Settings())
    if not isinstance(made, Scorer | Judge):
        raise SpecError(f"{spec}: {type(made).__name__} has neither score() nor judge()")
    return made


def _maker(spec: Spec) -> Any:
    if spec.kind == "classifier" and (spec.reference or "").startswith("api:"):
        from palate.scorers.reward_server import RewardServer

        return RewardServer
    if spec.kind == "personal" and is_policy(Path(spec.reference or "").expanduser()):
        from palate.scorers.personal_policy import PersonalPolicyScorer

        return PersonalPolicyScorer
    if spec.kind == "personal" and spec.options.get("state") == "stranger":
        from palate.scorers.third_users import ThirdUsers

        return ThirdUsers
    return load(GROUP, spec.kind)
