"""Guided writing: what policy and guide make of the next token, or of the next segment."""

from palate.engines.guidance.candidates import Candidates
from palate.engines.guidance.fusion import (
    PRESETS,
    TOKEN_METHODS,
    Fusion,
    Keep,
    Preset,
    amulet_shift,
    weighted,
)
from palate.engines.guidance.guides import (
    Guide,
    PrefixGuide,
    Reading,
    TokenGuide,
    prefix_guide,
    refuse_other_tokens,
    token_guide,
)
from palate.engines.guidance.segments import Blocks, Rejection, write_segments
from palate.engines.guidance.stepwise import (
    CandidateRows,
    FusedRows,
    Guided,
    GuidedRow,
    Writing,
    divergence,
    write,
)

__all__ = [
    "PRESETS",
    "TOKEN_METHODS",
    "Blocks",
    "CandidateRows",
    "Candidates",
    "FusedRows",
    "Fusion",
    "Guide",
    "Guided",
    "GuidedRow",
    "Keep",
    "PrefixGuide",
    "Preset",
    "Reading",
    "Rejection",
    "TokenGuide",
    "Writing",
    "amulet_shift",
    "divergence",
    "prefix_guide",
    "refuse_other_tokens",
    "token_guide",
    "weighted",
    "write",
    "write_segments",
]
