"""Answers of a policy: who gives them, drawn once, kept by number."""

from palate.downstream.sampling.drawing import Shown, draw_samples, policy_prompt, shown_to_policy
from palate.downstream.sampling.gathering import DRAWN, samples_of
from palate.downstream.sampling.policies import build_policy
from palate.downstream.sampling.samples import Samples, check_number

__all__ = [
    "DRAWN",
    "Samples",
    "Shown",
    "build_policy",
    "check_number",
    "draw_samples",
    "policy_prompt",
    "samples_of",
    "shown_to_policy",
]
