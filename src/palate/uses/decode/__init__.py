"""Guided decoding: scorers steer what a policy writes, and the answers are rated."""

from palate.uses.decode.decode import decode
from palate.uses.decode.result import (
    DecodeResult,
    DecodeSummary,
    GuidedCell,
    GuidedQuality,
    Guiding,
    TextFacts,
    UnguidedQuality,
)

__all__ = [
    "DecodeResult",
    "DecodeSummary",
    "GuidedCell",
    "GuidedQuality",
    "Guiding",
    "TextFacts",
    "UnguidedQuality",
    "decode",
]
