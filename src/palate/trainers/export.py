"""From a scorer and data to a folder from which another trainer trains a policy."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from palate.benchmarks import Dataset, dataset_of
from palate.contexts import build_context
from palate.data import write_lines
from palate.engines import special_tokens
from palate.errors import UsageError, needing
from palate.files import whole_file, write_whole
from palate.learning.recipes import new_folder
from palate.marks import thoughts_among
from palate.records import Settings
from palate.records.arguments import checked
from palate.rewards import reward
from palate.runs.manifest import slug
from palate.session import Session, default_session
from palate.trainers.export_plan import (
    ExportedPolicy,
    ExportPlan,
    ExportTarget,
    PromptRow,
    Served,
    prompt_rows,
    read_exported_policy,
    users_of,
)

HELD_OUT = 10
"""Users whose rows are not trained on."""
SCRIPT = 0o755
IMAGE = "<image>"
"""OpenRLHF reads it as a place for a picture, in any text."""


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


@checked
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
        trained = read_exported_policy(policy, session, settings)
        notes = thought_notes(trained, target)
        shown = build_context(policy_context, session, settings)
        rows = prompt_rows(pairs, trained, shown, held_out, settings.seed)
        name = pairs.name if isinstance(benchmark, Dataset) else str(benchmark)
        words = ("-b", name) if data_words is None else tuple(data_words)
        served = Served(named.spec, named.context.spec, words, url, key_env)
        numbers = (trained.prompt_tokens(rows), *scale, kl_coefficient, settings.seed)
        plan = ExportPlan(target, pairs.name, served, trained, policy_context, rows, *numbers)
        write_files(plan, folder)
    (train, others), updates = rows, plan.updates_in_words
    sizes = len(train), users_of(train), len(others), users_of(others)
    return Exported(Path(output), plan.serve, target.start, *sizes, updates, notes)


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


def write_files(plan: ExportPlan, folder: Path) -> None:
    """Write a folder's files; raises `UsageError` where Parquet is wanted without pyarrow."""
    target = plan.target
    for name, rows in (("train", plan.rows.train), ("heldout", plan.rows.held_out)):
        lines = (target.columns(row, k, plan) for k, row in enumerate(rows))
        write = write_parquet if target.data == "parquet" else write_lines
        write(lines, folder / f"{name}.{target.data}")
    known = {
        "plan": plan,
        "policy": plan.policy,
        "batches": plan.batches,
        "target": target,
        "serve": plan.serve,
        "updates": plan.updates_in_words,
        "users_of": users_of,
    }
    for name in target.files:
        text = _environment().get_template(f"{target.name}/{name}.jinja").render(known)
        write_whole(folder / name, text)
        if name.endswith(".sh"):
            (folder / name).chmod(SCRIPT)


def write_parquet(rows: Iterable[Mapping[str, Any]], path: Path) -> None:
    """Write a Parquet file; raises `UsageError` without pyarrow."""
    with needing(f"{path.name}: Parquet needs", "hub"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    with whole_file(path) as stream:
        pq.write_table(pa.Table.from_pylist([dict(row) for row in rows]), stream)


def hydra(text: str) -> str:
    r"""Return a text as a value of a Hydra override, whatever it holds.

    >>> hydra("/data/Ann's model, 2")
    "'/data/Ann\\'s model, 2'"
    """
    return "'" + text.replace("'", "\\'") + "'"


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("palate.trainers"),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(
        python=partial(json.dumps, ensure_ascii=False), shell=shlex.quote, hydra=hydra
    )
    return environment


def trl_columns(row: PromptRow, number: int, plan: ExportPlan) -> Mapping[str, Any]:
    """Return a row of the data set; every column but `prompt` reaches the reward as a list."""
    return {"prompt": row.messages, "row": row.row}


def verl_columns(row: PromptRow, number: int, plan: ExportPlan) -> Mapping[str, Any]:
    """Return a row of the data set; `ground_truth` must be there, though nothing here reads it."""
    return {
        "data_source": f"palate-{slug(plan.benchmark)}",
        "prompt": row.messages,
        "reward_model": {"style": "model", "ground_truth": row.row},
        "extra_info": {"row": row.row, "user": row.user, "index": number},
    }


def openrlhf_columns(row: PromptRow, number: int, plan: ExportPlan) -> Mapping[str, Any]:
    """Return a row of the data set; the label is all that reaches the reward beside the texts."""
    prompt = [
        {**message, "content": message["content"].replace(IMAGE, f"{IMAGE[0]}\u200b{IMAGE[1:]}")}
        for message in row.messages
    ]
    return {"prompt": prompt, "row": row.row}


TRL = ExportTarget(
    name="trl",
    title="TRL 1.16",
    data="jsonl",
    files=("reward.py", "train.py", "README.md"),
    start="python train.py",
    columns=trl_columns,
)
"""A Python function over batches, for its RLOO and GRPO trainers."""
VERL = ExportTarget(
    name="verl",
    title="verl 0.9.1",
    data="parquet",
    files=("reward.py", "overrides.txt", "start.sh", "README.md"),
    start="./start.sh",
    columns=verl_columns,
    more="trainer.total_epochs=N",
)
"""A Python file that is asked for one answer at a time, and a list of Hydra overrides."""
OPENRLHF = ExportTarget(
    name="openrlhf",
    title="OpenRLHF 0.11.2",
    data="jsonl",
    files=("reward.py", "start.sh", "README.md"),
    start="./start.sh",
    columns=openrlhf_columns,
    more="--train.num_episodes N",
    keeps_rest=True,
    needs_end_of_turn=True,
)
"""A Python file that is given prompt and response in one, and a row in `labels`."""
TARGETS = {target.name: target for target in (TRL, VERL, OPENRLHF)}
