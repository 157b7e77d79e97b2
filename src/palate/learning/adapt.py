"""adapt(model, choices) → a state per user."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from palate.benchmarks import Dataset
from palate.errors import UsageError
from palate.learning.p_dpo import PersonalPolicy, is_policy
from palate.learning.p_dpo import adapt as adapt_policy
from palate.learning.personal import PersonalModel, UserStates
from palate.learning.training_rows import rows_to_learn
from palate.records import Choice, Progress, Settings, choices_of, user_key
from palate.session import Session, default_session

Learner = Callable[[Mapping[str, Sequence[Choice]], Progress | None], UserStates]
"""From (key → choices, progress) to states."""


def adapt(
    model: str | Path,
    choices: str | Path | Dataset,
    output: str | Path | None = None,
    *,
    reference: str | None = None,
    split: str | None = None,
    session: Session | None = None,
    settings: Settings | None = None,
    progress: Progress | None = None,
) -> UserStates:
    """Learn a state for every user of a set of choices under a model that `train` made.

    `output` is a file that `personal:MODEL?users=FILE` reads; None writes none. `reference` is
    where the model lies that a p-dpo was trained from, if it was moved.

    Raises:
        UsageError: for an output of another ending, or a reference to a model that needs none.
        ModelError: for a folder that `train` did not make, or another embedder or reference.
    """
    if output is not None and Path(output).suffix != ".safetensors":
        raise UsageError(f"output {output}: a file of states ends in .safetensors")
    session, settings = session or default_session(), settings or Settings()
    learn = _learner(Path(model), session, settings, reference)
    history = choices_of(rows_to_learn(choices, split).pairs)
    states = learn({user_key(user): listed for user, listed in history.items()}, progress)
    if output is not None:
        states.save(Path(output))
    return states


def _learner(folder: Path, session: Session, settings: Settings, reference: str | None) -> Learner:
    if is_policy(folder):
        policy = PersonalPolicy.load(folder)
        base = policy.reference(reference)
        return lambda history, progress: adapt_policy(
            policy, history, session, settings, base, progress
        )
    if reference is not None:
        raise UsageError(f"--reference {reference}: {folder} has no reference model")
    trained = PersonalModel.load(folder)
    features = trained.features(session, settings)
    return lambda history, progress: trained.adapt(history, features, progress)
