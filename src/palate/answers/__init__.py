"""Answers of a policy: who gives them, drawn once, kept by number."""

from palate.answers.drawing import (
    DRAWN,
    NotDrawn,
    ShownParts,
    draw_prompts,
    draw_samples,
    policy_prompt,
    samples_of,
    shown_to_policy,
)
from palate.answers.samples import (
    Guidance,
    LanguageModelPolicy,
    MissingSamples,
    Sample,
    Samples,
    build_policy,
    check_number,
)
from palate.answers.scores import NOTHING_SHOWN, SampleScores, score_samples
