"""Guided writing: what policy and guide make of the next token, or of the next segment."""

from palate.guidance.guides import (
    Guide,
    PrefixGuide,
    Reading,
    TokenGuide,
    prefix_guide,
    refuse_other_tokens,
    token_guide,
)
from palate.guidance.laws import (
    PRESETS,
    TOKEN_METHODS,
    Candidates,
    Fusion,
    TokenFilter,
    amulet_shift,
    weighted,
)
from palate.guidance.methods import build_methods
from palate.guidance.segments import Blocks, Rejection, write_segments
from palate.guidance.stepwise import (
    CandidateRows,
    FusedRows,
    Guided,
    GuidedRow,
    TeacherForced,
    Writing,
    candidate_sums,
    fused_sums,
    token_sums,
    write,
)
