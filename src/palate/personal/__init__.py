"""Reward models that learn each user's taste from their choices, one method per file."""

from palate.personal.choices import Block, Choices
from palate.personal.protocol import Model, States, method_of, repeated, take
from palate.personal.scaling import Scaling

__all__ = ["Block", "Choices", "Model", "Scaling", "States", "method_of", "repeated", "take"]
