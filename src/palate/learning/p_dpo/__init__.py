"""P-DPO: one language model with soft tokens per user, a reward model through its policy."""

from palate.learning.p_dpo.adapting import adapt
from palate.learning.p_dpo.encoding import encode_choices
from palate.learning.p_dpo.folder import METHOD, STATE, USERS, PersonalPolicy, is_policy
from palate.learning.p_dpo.training import train_p_dpo
from palate.learning.p_dpo.users import FromChoices, FromFile, Joined, Users
from palate.learning.recipes.preferences import PreferenceOptions

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
    "encode_choices",
    "is_policy",
    "train_p_dpo",
]
