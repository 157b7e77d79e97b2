"""Reward models that learn each user's taste from their choices."""

from palate.personal.choices import Block, Choices
from palate.personal.fitting import fit
from palate.personal.gathering import Gathered, gather
from palate.personal.next_question import next_question
from palate.personal.protocol import GROUP, Model, States, method_of, repeated, take
from palate.personal.scaling import Scaling
from palate.personal.states import UserStates
from palate.personal.trained import Trained

__all__ = [
    "GROUP",
    "Block",
    "Choices",
    "Gathered",
    "Model",
    "Scaling",
    "States",
    "Trained",
    "UserStates",
    "fit",
    "gather",
    "method_of",
    "next_question",
    "repeated",
    "take",
]
