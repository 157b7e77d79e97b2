"""Answers of a policy: who gives them, drawn once, kept by number."""

from palate.downstream.sampling.drawing import draw_samples
from palate.downstream.sampling.gathering import DRAWN, samples_of
from palate.downstream.sampling.policies import Policy, Sample, build_policy
from palate.downstream.sampling.samples import Samples, check_number, load_samples

__all__ = [
    "DRAWN",
    "Policy",
    "Sample",
    "Samples",
    "build_policy",
    "check_number",
    "draw_samples",
    "load_samples",
    "samples_of",
]
