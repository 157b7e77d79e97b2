"""A planner from users' rubrics: from question and profile to what this user expects."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from palate.contexts import build_context
from palate.data import content_hash
from palate.engines import ChatTemplate, Encoded
from palate.errors import DataError
from palate.learning.encoding import TrainingExample, keep_users
from palate.learning.fitting import fit
from palate.learning.overlap import apart_from
from palate.learning.recipes import (
    STEPS,
    BaseMethod,
    BaseTask,
    TrainedModel,
    new_folder,
    save,
    trained_model,
)
from palate.prompts import as_text, fitting_parts, plan_prompt, plan_text, prompt_hash
from palate.records import Context, Part, PreferencePair, User, UserPool
from palate.session import Session


def train_planner(task: BaseTask) -> TrainedModel:
    """Teach a causal model to write a row's rubric aspects from its question and profile.

    Low-rank adapters are trained on -log p(aspects as a bullet list | the prompt of the context
    `plan`) and merged; the folder is a plain model, used as `plan:./folder`. Rank, learning rate
    and share of warm-up are those of LaMP-QA's planner (arXiv 2506.00137; there 2,000 steps of 64
    rows). The aspects are a benchmark's gold: train on people it does not evaluate, and name it in
    `disjoint_from`. With `steps=0` the untrained start is saved.

    The option `posts` is how many of the profile are read, the most relevant by BM25, as
    `plan:…?k=` reads them. Of the rows aspects and profile are read, no response. By default
    training takes 200 steps, warm-up 0.125 and 2048 tokens; posts are left out, the least relevant
    first, until prompt and aspects fit. Raises as `train_classifier`, and `DataError` where people
    of `disjoint_from` are trained on.
    """
    allowed = keep_users(task.pairs, task.leave_out)
    not_in = apart_from(task.options.get("disjoint_from", ()), allowed)
    recipe, lora = task.recipe(steps=200, warmup=0.125, max_length=2048), task.lora(16, scale=1)
    profile = build_context(f"profile:{task.options.get('posts', 10)}", Session())
    usable = [pair for pair in allowed if pair.gold.aspects and pair.profile]
    if not usable:
        raise DataError(
            f"no row to train on: none of {len(allowed)} has rubric aspects and a profile"
        )
    with new_folder(task.output) as folder:
        base, facts = task.load(recipe, "causal")
        limit = recipe.longest(base.model)
        encoded = [(pair, encode_plan(pair, profile, base.template, limit)) for pair in usable]
        fitting = [(pair, row) for pair, row in encoded if row is not None]
        if not fitting:
            raise DataError(f"no row to train on: each of {len(usable)} is over {limit} tokens")
        rows = [row for _, row in fitting]
        fitted = fit("SFT", base, rows, recipe, folder.parent / "trainer", lora=lora)
        counts = {"n_users": len({pair.user_id for pair, _ in fitting})}
        counts |= {"n_too_long": len(usable) - len(rows), "n_without": len(allowed) - len(usable)}
        trained = trained_model(task, recipe, base, fitted, len(rows), **counts)
        content = {
            "kind": "planner",
            "base": facts,
            "data": content_hash(pair for pair, _ in fitting),
            "n_pairs": trained.n_pairs,
            "n_users_left_out": trained.n_users_left_out,
            "not_in": not_in,
            "reads": profile.spec,
            "prompt": prompt_hash("plan.jinja", "about.jinja"),
            "lora": asdict(lora),
            **base.template.source.details,
            **recipe.facts,
        }
        save(fitted.model, base.tokenizer, folder, content)
    return trained


def encode_plan(
    pair: PreferencePair, profile: Context, template: ChatTemplate, limit: int
) -> TrainingExample | None:
    """Return the prompt of the context `plan` and the row's aspects; None where they do not fit."""
    aspects = plan_text(aspect.aspect for aspect in pair.gold.aspects)
    question = as_text(pair.messages)
    user = User(id=pair.user_id, posts=pair.profile)
    shown = profile.shown(pair.view, user, UserPool({})).parts

    def closed(parts: Sequence[Part]) -> Encoded:
        return template.closed(plan_prompt(question, parts), aspects)

    parts = fitting_parts(shown, lambda some: len(closed(some).ids), limit)
    if not parts:
        return None
    encoded = closed(parts)
    return TrainingExample(tuple(encoded.ids), encoded.start)


PLANNER = BaseMethod((*STEPS, "rank", "posts", "disjoint_from"), train_planner)
