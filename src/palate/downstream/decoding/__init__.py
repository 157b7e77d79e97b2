"""Guided decoding: scorers steer what a policy writes, and the answers are rated."""

from palate.downstream.decoding.build import build_methods
from palate.downstream.decoding.decode import decode
from palate.downstream.decoding.result import DecodeResult, GuidedCell

__all__ = ["DecodeResult", "GuidedCell", "build_methods", "decode"]
