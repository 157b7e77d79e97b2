"""From a scorer and data to a folder from which another trainer trains a policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palate.benchmarks import Dataset, dataset_of
from palate.engines.text.marks import special_tokens
from palate.errors import UsageError
from palate.learning.recipes.output import new_folder
from palate.marks import thoughts_among
from palate.records import Settings
from palate.rewards import reward
from palate.session import Session, default_session
from palate.trainers.export.plan import ExportPlan, Served
from palate.trainers.export.policies import ExportedPolicy, read_policy
from palate.trainers.export.prompts import prompt_rows
from palate.trainers.export.targets import TARGETS, ExportTarget
from palate.trainers.export.writing import serve_command, updates_in_words, write_files

HELD_OUT = 10
"""Users whose rows are not trained on."""


@dataclass(frozen=True)
class Exported:
    """A folder that was written, and what is to be run."""

    folder: Path
    serve: str
    """Serves the scorer, where export ran."""
    start: str
    """Starts training, in the folder."""
    train_rows: int
    train_users: int
    held_out_rows: int
    held_out_users: int
    updates: str | None
    """How many updates the trainer makes, in words; None where it says so itself."""
    notes: tuple[str, ...] = ()
    """What may go wrong."""


def export(
    benchmark: str | Path | Dataset,
    policy: str,
    scorer: str,
    context: str = "none",
    *,
    to: str,
    output: Path | str,
    policy_context: str = "none",
    held_out: int = HELD_OUT,
    url: str = "http://127.0.0.1:8000",
    key_env: str | None = None,
    scale: tuple[float, float] = (0.0, 1.0),
    kl_coefficient: float = 0.05,
    data_words: Sequence[str] | None = None,
    session: Session | None = None,
    settings: Settings | None = None,
) -> Exported:
    """Write a folder from which `trl`, `verl` or `openrlhf` trains a policy on a scorer's rewards.

    The policy is asked what `best_of_n` asks it. Its trainer asks `palate serve` at `url` for
    rewards; with `key_env` the token of that environment variable goes with every question, and
    stands in no file. A reward is (score - mean) / deviation of the `scale`. `data_words` are the
    words by which the command line names the data; None takes its path or name.

    Raises:
        UsageError: for a folder that is not empty, a policy without a chat template, a scorer that
            is no reward, and what else `palate.reward` refuses.
        And what loading data raises.

    Example:
        >>> export("tasting", "ORG/MODEL", "longest", to="trlx", output="out")
        Traceback (most recent call last):
        palate.errors.UsageError: export to 'trlx': expected trl, verl or openrlhf
    """
    if to not in TARGETS:
        raise UsageError(f"export to {to!r}: expected trl, verl or openrlhf")
    mean, deviation = scale
    if not (math.isfinite(mean) and 0 < deviation < math.inf):
        raise UsageError("--scale: expected a mean, and a deviation above 0")
    if not 0 <= kl_coefficient < math.inf:
        raise UsageError("--kl: expected 0 or more")
    target = TARGETS[to]
    session, settings = session or default_session(), settings or Settings()
    with new_folder(Path(output)) as folder:
        pairs = dataset_of(benchmark, settings.seed)
        named = reward(scorer, context, session=session, settings=settings)
        trained = read_policy(policy, session, settings)
        notes = thought_notes(trained, target)
        rows = prompt_rows(pairs, trained, policy_context, held_out, session, settings)
        name = pairs.name if isinstance(benchmark, Dataset) else str(benchmark)
        words = ("-b", name) if data_words is None else tuple(data_words)
        plan = ExportPlan(
            trainer=to,
            benchmark=pairs.name,
            policy=trained,
            policy_context=policy_context,
            served=Served(named.spec, named.context.spec, words, url, key_env),
            rows=rows,
            prompt_tokens=trained.prompt_tokens(rows.prompts),
            mean=mean,
            deviation=deviation,
            kl_coefficient=kl_coefficient,
            seed=settings.seed,
        )
        write_files(plan, target, folder)
    return Exported(
        folder=Path(output),
        serve=serve_command(plan, target),
        start=target.start,
        train_rows=len(rows.train),
        train_users=plan.users(rows.train),
        held_out_rows=len(rows.held_out),
        held_out_users=plan.users(rows.held_out),
        updates=updates_in_words(plan, target),
        notes=notes,
    )


def thought_notes(policy: ExportedPolicy, target: ExportTarget) -> tuple[str, ...]:
    """Warn of thoughts whose marks the trainer drops; raises `UsageError` where all begin so."""
    if policy.template is None or target.needs_end_of_turn:
        return ()
    if not (marks := sorted(thoughts_among(special_tokens(policy.template.tokenizer)))):
        return ()
    problem = (
        f"{target.title} drops {', '.join(marks)} from answers, as special tokens: a thought that "
        "the policy writes would be rewarded with its answer"
    )
    if any(mark in policy.open_thought for mark in marks):
        raise UsageError(f"{policy.spec}: opens a thought, and {problem}; export to openrlhf")
    return (problem,)
