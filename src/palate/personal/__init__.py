"""Reward models that learn each user's taste from their choices."""

from palate.personal.choices import Choices
from palate.personal.fitting import fit
from palate.personal.gathering import gather
from palate.personal.next_question import next_question
from palate.personal.personal_model import PersonalModel
from palate.personal.protocol import GROUP, Model, States, method_of, repeated, take
from palate.personal.states import UserStates

__all__ = [
    "GROUP",
    "Choices",
    "Model",
    "PersonalModel",
    "States",
    "UserStates",
    "fit",
    "gather",
    "method_of",
    "next_question",
    "repeated",
    "take",
]
