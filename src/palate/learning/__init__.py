"""Learning from users' data: train a model, adapt one to new users."""

from palate.learning.adapt import adapt
from palate.learning.rows import rows_to_learn
from palate.learning.train import train

__all__ = ["adapt", "rows_to_learn", "train"]
