"""A model in this process: what sequences share is read once, and nothing is padded."""

from palate.engines.local.decoding import generate, sample
from palate.engines.local.forward import TokenSpan
from palate.engines.local.model import LabelLogits, LocalModel

__all__ = [
    "LabelLogits",
    "LocalModel",
    "TokenSpan",
    "generate",
    "sample",
]
