"""What benchmarks should predict: answers picked among many, and how good they are."""

from palate.downstream.best_of_n import best_of_n, sizes_up_to
from palate.downstream.best_of_result import BestOfResult, Selection
from palate.downstream.decoding import DecodeResult, GuidedCell, decode
from palate.downstream.processor import guidance
from palate.downstream.quality import build_quality, contrast_samples
from palate.downstream.sampling import Samples, build_policy, draw_samples
from palate.downstream.scores import SampleScores

__all__ = [
    "BestOfResult",
    "DecodeResult",
    "GuidedCell",
    "SampleScores",
    "Samples",
    "Selection",
    "best_of_n",
    "build_policy",
    "build_quality",
    "contrast_samples",
    "decode",
    "draw_samples",
    "guidance",
    "sizes_up_to",
]
