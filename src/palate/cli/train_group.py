"""palate train: a command for every kind of model that can be trained."""

from palate.cli.completion import names
from palate.cli.lazy import add_lazy, lazy_group

train = lazy_group(
    "Train a reward model or a planner on users' data.",
    {
        "classifier": (
            "train:train_a_classifier",
            "Train a Bradley–Terry reward model with a classification head through TRL.",
        ),
        "autoregressive": (
            "train:train_token_rewards",
            "Train a reward for every token (GenARM) through TRL.",
        ),
        "planner": (
            "train:train_a_planner",
            "Train a planner: from question and profile to what this user expects of an answer.",
        ),
    },
)
for method in names("palate.methods"):
    add_lazy(
        train, method, f"Train {method} on users' choices.", "palate.cli.personal:trainer", method
    )
add_lazy(
    train,
    "p-dpo",
    "Train a language model with soft tokens per user (P-DPO), a reward for every token.",
    "palate.cli.personal_policy:train_policy",
)
