"""The answers that best-of-n reads: drawn of a policy, read from a file, or given."""

from __future__ import annotations

from pathlib import Path

from palate.answers.drawing import draw_samples, shown_to_policy
from palate.answers.policies import build_policy
from palate.answers.samples import Samples, load_samples
from palate.benchmarks import Dataset
from palate.evaluation import Work
from palate.runs import slug

DRAWN = 16
"""Answers to a question that are drawn where no number is given."""


def samples_of(
    policy: str | Path | Samples,
    pairs: Dataset,
    n: int | None,
    work: Work,
    *,
    context: str,
) -> Samples:
    """Return n answers to every row; what a policy is drawn of is written under the work's root.

    Raises what `draw_samples`, `load_samples` and `Samples.first` do.
    """
    if isinstance(policy, Path):
        return load_samples(policy, pairs, n)
    if isinstance(policy, Samples):
        return policy if n is None else policy.first(n)
    session, settings = work.session, work.settings
    built = build_policy(policy, session, settings)
    shown_parts = shown_to_policy(work.context(context), pairs, settings.seed)
    named = built.spec if shown_parts is None else f"{built.spec} shown {context}"
    named = named if settings.seed == 0 else f"{named} seed {settings.seed}"
    drawn = draw_samples(
        built,
        pairs,
        DRAWN if n is None else n,
        session.store,
        shown_parts,
        work.start(f"sampling {named}"),
        named=named,
    )
    if work.root is not None:
        file = f"{slug(named)}-{drawn.content[:8]}.jsonl"
        drawn.save(work.root / slug(f"{pairs.name} samples") / file)
    return drawn
