"""Answers of a policy: who gives them, drawn once, kept by number."""

from palate.downstream.sampling.drawing import draw_samples
from palate.downstream.sampling.gathering import DRAWN, samples_of
from palate.downstream.sampling.policies import build_policy
from palate.downstream.sampling.samples import Samples, check_number

__all__ = [
    "DRAWN",
    "Samples",
    "build_policy",
    "check_number",
    "draw_samples",
    "samples_of",
]
