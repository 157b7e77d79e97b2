"""A scorer's guidance inside the `generate` of transformers."""

from palate.uses.logits_processor.processor import guidance

__all__ = ["guidance"]
