"""Guided writing: what policy and guide make of the next token, or of the next segment."""

from palate.guidance.build_methods import build_methods
from palate.guidance.candidates import Candidates
from palate.guidance.fusion import (
    PRESETS,
    TOKEN_METHODS,
    Fusion,
    Preset,
    TokenFilter,
    amulet_shift,
    weighted,
)
from palate.guidance.guides import (
    Guide,
    PrefixGuide,
    Reading,
    TokenGuide,
    prefix_guide,
    refuse_other_tokens,
    token_guide,
)
from palate.guidance.row_matching import rows_of
from palate.guidance.segments import Blocks, Rejection, write_segments
from palate.guidance.stepwise import (
    CandidateRows,
    FusedRows,
    Guided,
    GuidedRow,
    Stepper,
    Writing,
    divergence,
    write,
)
from palate.guidance.teacher_forcing import TeacherForced, candidate_sums, fused_sums, token_sums

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
    "PrefixGuide",
    "Preset",
    "Reading",
    "Rejection",
    "Stepper",
    "TeacherForced",
    "TokenFilter",
    "TokenGuide",
    "Writing",
    "amulet_shift",
    "build_methods",
    "candidate_sums",
    "divergence",
    "fused_sums",
    "prefix_guide",
    "refuse_other_tokens",
    "rows_of",
    "token_guide",
    "token_sums",
    "weighted",
    "write",
    "write_segments",
]
