"""How good a response is to the one who asked: measures that read the row's gold."""

from palate.downstream.quality.build import build_quality
from palate.downstream.quality.protocol import Answered, Need, Quality, Rated

__all__ = ["Answered", "Need", "Quality", "Rated", "build_quality"]
