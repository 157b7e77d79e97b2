"""Reward models that learn each user's taste from their choices."""

from palate.learning.personal.choices import Choices
from palate.learning.personal.embed_choices import gather
from palate.learning.personal.fitting import fit
from palate.learning.personal.personal_model import PersonalModel
from palate.learning.personal.protocol import GROUP, Model, States, method_of, repeated, take
from palate.learning.personal.states import UserStates

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
    "repeated",
    "take",
]
