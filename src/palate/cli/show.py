"""palate show: exactly what a model would see of one pair."""

from __future__ import annotations

from itertools import product
from typing import Annotated

import typer

from palate.benchmarks import Dataset
from palate.cli import options as flags
from palate.cli.console import show_text
from palate.cli.data_options import LoadingOfLayout
from palate.cli.flatten import flatten_options
from palate.contexts import build_context
from palate.errors import BenchmarkError
from palate.evaluation import adapt_to, make_rows, user_keys_fn
from palate.records import Settings, Slate, info_of
from palate.scorers import build_scorer
from palate.session import Session


@flatten_options
def show_pair(
    benchmark: flags.Benchmarks,
    scorer: flags.Scorers,
    *,
    pair: Annotated[str | None, typer.Option(help="Id of the pair; default the first.")] = None,
    context: flags.Contexts = ["none"],  # noqa: B006 - typer copies it
    loading: LoadingOfLayout,
    seed: flags.Seed = 0,
    template_date: flags.TemplateDate = None,
    chat_template: flags.ChatTemplate = None,
    trust_remote_code: flags.Trust = False,
) -> None:
    """Print what a scorer would see of one pair, under each context."""
    settings = flags.make_settings(
        seed,
        chat_template=chat_template,
        template_date=template_date,
        trust_remote_code=trust_remote_code,
    )
    with Session() as session:
        for pairs in (loading.load(name, seed) for name in benchmark):
            for spec, shown in product(scorer, context):
                text = first_prompt(pairs, spec, shown, session, settings, pair)
                show_text(f"── {pairs.name} · {spec} · {shown}\n{text}")


def first_prompt(
    pairs: Dataset,
    scorer: str,
    context: str,
    session: Session,
    settings: Settings,
    pair: str | None = None,
) -> str:
    """Return what a scorer reads of one pair: its prompts where it has some, else the slate."""
    adapted = build_scorer(scorer, session, settings)
    built = build_context(context, session, settings)
    adapted = adapt_to(adapted, pairs, scorer)
    user_keys = user_keys_fn(adapted, info_of(adapted, scorer), pairs, settings.seed)
    rows = make_rows(pairs, built, seed=settings.seed, user_keys=user_keys)
    at = next((k for k in range(len(rows)) if pair is None or rows.id(k) == pair), None)
    if at is None:
        raise BenchmarkError(f"{pairs.name} has no pair {pair!r}")
    slate = rows.slate(at)  # this row alone: what a context shows may be costly
    prompts = getattr(adapted, "prompts", None)
    if prompts is None:
        return _slate(slate)
    return "\n\n".join(prompts(slate))


def _slate(slate: Slate) -> str:
    *turns, question = slate.question
    lines = [f"the {turn.role} said: {turn.content}" for turn in turns]
    lines.append(f"question: {question.content}")
    lines += [f"shown {part.kind} {part.rank}: {part.text}" for part in slate.shown]
    lines += [f"response {k}: {text}" for k, text in enumerate(slate.candidates)]
    return "\n".join(lines)
