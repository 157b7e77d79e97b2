"""A model in this process: what sequences share is read once, and nothing is padded."""

from palate.engines.local.decoding import generate, sample
from palate.engines.local.forward import TokenSpan
from palate.engines.local.loading import ReadMode
from palate.engines.local.model import LabelLogits, LocalModel
from palate.engines.local.padding import pad
from palate.engines.local.read_mode import find_read_mode
from palate.engines.local.threads import FairLock, map_ordered
from palate.engines.local.valid_ids import ValidIds

__all__ = [
    "FairLock",
    "LabelLogits",
    "LocalModel",
    "ReadMode",
    "TokenSpan",
    "ValidIds",
    "find_read_mode",
    "generate",
    "map_ordered",
    "pad",
    "sample",
]
