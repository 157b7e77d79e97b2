"""Users who are not trained on: what a policy answers them, and the figures of it."""

from palate.trainers.held_out_users.answers import AnswerWriter
from palate.trainers.held_out_users.evaluating import (
    RUN,
    HeldOutAnswer,
    HeldOutAnswers,
    HeldOutRow,
    share_copied,
)

__all__ = ["RUN", "AnswerWriter", "HeldOutAnswer", "HeldOutAnswers", "HeldOutRow", "share_copied"]
