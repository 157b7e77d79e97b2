"""Learning from users' data: train a model, adapt one to new users."""

from palate.learning.adapt import adapt
from palate.learning.next_question import next_question
from palate.learning.train import train
from palate.learning.training_rows import rows_to_learn

__all__ = ["adapt", "next_question", "rows_to_learn", "train"]
