"""One method per file, and what several of them share."""

from palate.learning.methods.user_heads import UserHeads

__all__ = ["UserHeads"]
