"""Answers of a policy: who gives them, drawn once, kept by number."""

from palate.answers.drawing import ShownParts, draw_samples, policy_prompt, shown_to_policy
from palate.answers.obtain_samples import DRAWN, samples_of
from palate.answers.policies import (
    Guidance,
    LanguageModelPolicy,
    MissingSamples,
    Sample,
    build_policy,
)
from palate.answers.prompts import NotDrawn, draw_prompts
from palate.answers.samples import Samples, check_number

__all__ = [
    "DRAWN",
    "Guidance",
    "LanguageModelPolicy",
    "MissingSamples",
    "NotDrawn",
    "Sample",
    "Samples",
    "ShownParts",
    "build_policy",
    "check_number",
    "draw_prompts",
    "draw_samples",
    "policy_prompt",
    "samples_of",
    "shown_to_policy",
]
