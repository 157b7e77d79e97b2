"""P-DPO: one language model with soft tokens per user, a reward model through its policy."""

from palate.personal.p_dpo.adapting import adapt
from palate.personal.p_dpo.folder import KIND, METHOD, STATE, USERS, PersonalPolicy, is_policy
from palate.personal.p_dpo.training import train_p_dpo
from palate.personal.p_dpo.users import FromChoices, FromFile, Joined, Users
from palate.training.preferences import Options

__all__ = [
    "KIND",
    "METHOD",
    "STATE",
    "USERS",
    "FromChoices",
    "FromFile",
    "Joined",
    "Options",
    "PersonalPolicy",
    "Users",
    "adapt",
    "is_policy",
    "train_p_dpo",
]
