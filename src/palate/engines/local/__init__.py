"""A model in this process: what sequences share is read once, and nothing is padded."""

from palate.engines.local.decoding import generate, sample
from palate.engines.local.forward import TokenSpan
from palate.engines.local.loading import ReadMode
from palate.engines.local.model import LabelLogits, LocalModel
from palate.engines.local.padding import pad
from palate.engines.local.read_mode import find_read_mode
from palate.engines.local.threads import Turns, spread
from palate.engines.local.valid_ids import ValidIds

__all__ = [
    "LabelLogits",
    "LocalModel",
    "ReadMode",
    "TokenSpan",
    "Turns",
    "ValidIds",
    "find_read_mode",
    "generate",
    "pad",
    "sample",
    "spread",
]
