"""P-DPO: one language model with soft tokens per user, a reward model through its policy."""

from palate.personal.p_dpo.adapting import adapt
from palate.personal.p_dpo.folder import METHOD, STATE, USERS, PersonalPolicy, is_policy
from palate.personal.p_dpo.training import train_p_dpo
from palate.personal.p_dpo.users import FromChoices, FromFile, Joined, Users
from palate.training.preferences import PreferenceOptions

__all__ = [
    "METHOD",
    "STATE",
    "USERS",
    "FromChoices",
    "FromFile",
    "Joined",
    "PersonalPolicy",
    "PreferenceOptions",
    "Users",
    "adapt",
    "is_policy",
    "train_p_dpo",
]
